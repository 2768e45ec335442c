//! Command-line tools that write files.

use super::{Broken, Kind, Meanwhile, Program, Style};

const TMP: &str = r#"edit < "$T" > "$T.tmp"; pause; mv "$T.tmp" "$T""#;

/// In the order of the table.
pub(super) const ALL: &[Program] = &[
    Program::new("sed", "`sed -i`", r#"sed -i -e '1e pause' -e "s/$OLD/$NEW/" "$T""#),
    Program::new(
        "sed_backup",
        "`sed -i.bak`",
        r#"sed -i.bak -e '1e pause' -e "s/$OLD/$NEW/" "$T""#,
    )
    .backup("T.bak"),
    Program::new("perl", "`perl -pi`", r#"perl -pi "$PROGRAMS/edit.pl" "$T""#),
    Program::new("perl_backup", "`perl -pi.bak`", r#"perl -pi.bak "$PROGRAMS/edit.pl" "$T""#)
        .backup("T.bak"),
    Program::new(
        "gawk",
        "`gawk -i inplace`",
        r#"gawk -i inplace -v old="$OLD" -v new="$NEW" \
             'NR == 1 { system("pause") } { sub(old, new); print }' "$T""#,
    ),
    Program::new(
        "busybox_sed",
        "`sed -i` (busybox)",
        // Reading the second file blocks until somebody opens the pipe for writing.
        r#"rm -f "$SCRATCH/pipe"; mkfifo "$SCRATCH/pipe"; (pause > "$SCRATCH/pipe") &
           busybox sed -i -e "1r $SCRATCH/pipe" -e "s/$OLD/$NEW/" "$T""#,
    )
    .broken(Broken::Header),
    Program::new("temp_mv", "`… > T.tmp; mv T.tmp T`", TMP),
    Program::new("mv_across", "`mv` from another file system", r#"edit < "$T" > "$N"; pause; mv "$N" "$T""#),
    Program::new(
        "mv_backup",
        "`mv -b`",
        r#"edit < "$T" > "$T.tmp"; pause; mv -b "$T.tmp" "$T""#,
    )
    .backup("T~"),
    Program::new("cp", "`cp`", r#"edit < "$T" > "$N"; pause; cp "$N" "$T""#),
    Program::new("cp_p", "`cp -p`", r#"edit < "$T" > "$N"; pause; cp -p "$N" "$T""#),
    Program::new("cp_backup", "`cp -b`", r#"edit < "$T" > "$N"; pause; cp -b "$N" "$T""#)
        .backup("T~"),
    Program::new(
        "cp_remove",
        "`cp --remove-destination`",
        r#"edit < "$T" > "$N"; pause; cp --remove-destination "$N" "$T""#,
    ),
    Program::new("busybox_cp", "`cp` (busybox)", r#"edit < "$T" > "$N"; pause; busybox cp "$N" "$T""#),
    Program::new("install", "`install`", r#"edit < "$T" > "$N"; pause; install -m 644 "$N" "$T""#),
    Program::new("rsync", "`rsync`", r#"edit < "$T" > "$N"; pause; rsync -I "$N" "$T""#),
    Program::new(
        "rsync_inplace",
        "`rsync --inplace`",
        r#"edit < "$T" > "$N"; pause; rsync -I --inplace "$N" "$T""#,
    ),
    Program::new(
        "rsync_backup",
        "`rsync --backup`",
        r#"edit < "$T" > "$N"; pause; rsync -I --backup "$N" "$T""#,
    )
    .backup("T~"),
    Program::new("dd", "`dd`", r#"edit < "$T" > "$N"; pause; dd if="$N" of="$T" status=none"#),
    Program::new(
        "dd_fsync",
        "`dd bs=13 conv=fsync`",
        r#"edit < "$T" > "$N"; pause; dd if="$N" of="$T" bs=13 conv=fsync status=none"#,
    ),
    Program::new(
        "dd_notrunc",
        "`dd conv=notrunc`",
        r#"edit < "$T" > "$N"; pause; dd if="$N" of="$T" conv=notrunc status=none"#,
    )
    .kinds(&[Kind::InPlace, Kind::Growing])
    .meanwhile(Meanwhile::Offsets),
    Program::new("truncate", "`truncate`", r#"pause; truncate -s "-$CUT" "$T""#)
        .style(Style::Cut)
        .meanwhile(Meanwhile::Blind),
    Program::new(
        "tar",
        "`tar x`",
        r#"mkdir -p "$SCRATCH/d"; edit < "$T" > "$N"; cp "$N" "$SCRATCH/d/$T"; pause
           tar c -C "$SCRATCH/d" -f "$SCRATCH/a.tar" "$T"; tar x -f "$SCRATCH/a.tar""#,
    ),
    Program::new(
        "tar_overwrite",
        "`tar x --overwrite`",
        r#"mkdir -p "$SCRATCH/d"; edit < "$T" > "$N"; cp "$N" "$SCRATCH/d/$T"; pause
           tar c -C "$SCRATCH/d" -f "$SCRATCH/a.tar" "$T"; tar x --overwrite -f "$SCRATCH/a.tar""#,
    ),
    Program::new(
        "patch",
        "`patch`",
        r#"edit < "$T" > "$N"; diff -au "$T" "$N" > "$SCRATCH/p"; pause; patch -s "$T" "$SCRATCH/p""#,
    ),
    Program::new(
        "patch_backup",
        "`patch -b`",
        r#"edit < "$T" > "$N"; diff -au "$T" "$N" > "$SCRATCH/p"; pause
           patch -s -b "$T" "$SCRATCH/p""#,
    )
    .backup("T.orig"),
    Program::new(
        "git_checkout",
        "`git checkout -- T`",
        r#"repository "$SCRATCH/git"; pause; git checkout -q -- "$T""#,
    ),
    Program::new(
        "git_inside",
        "`git checkout -- T`, repository beside T",
        r#"repository "$PWD/.git"; pause; git checkout -q -- "$T"
           code=$?; rm -rf .git; exit $code"#,
    ),
    Program::new(
        "git_stash",
        "`git stash`",
        r#"repository "$SCRATCH/git"; echo '* filter=slow' > "$GIT_DIR/info/attributes"
           git config filter.slow.smudge 'cat; pause'; git stash -q"#,
    ),
    Program::new(
        "git_apply",
        "`git apply`",
        r#"edit < "$T" > "$N"
           diff -au --label "a/$T" --label "b/$T" "$T" "$N" > "$SCRATCH/p"; pause
           git apply "$SCRATCH/p""#,
    )
    .broken(Broken::Header),
    Program::new(
        "jq_temp",
        "`jq … > T.tmp && mv T.tmp T`",
        r#"jq --arg old "$OLD" --arg new "$NEW" '.note |= sub($old; $new)' "$T" > "$T.tmp"
           pause; mv "$T.tmp" "$T""#,
    )
    .style(Style::Json),
    Program::new(
        "jq_onto_itself",
        "`jq … T > T`",
        r#"(cat "$T"; pause) | jq --arg old "$OLD" --arg new "$NEW" '.note |= sub($old; $new)' > "$T""#,
    )
    .style(Style::Json)
    .only_in_a_mount(),
];
