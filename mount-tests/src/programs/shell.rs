//! Redirections of the shell and what stands at the end of a pipe.

use super::{Broken, Kind, Meanwhile, Program, Style};

/// In the order of the table.
pub(super) const ALL: &[Program] = &[
    Program::new(
        "bash_redirect",
        "`printf … > T` (bash)",
        r#"text=$(edit < "$T"); pause; printf '%s\n' "$text" > "$T""#,
    )
    .broken(Broken::Header),
    Program::new("cat_redirect", "`cat … > T`", r#"edit < "$T" > "$N"; pause; cat "$N" > "$T""#),
    Program::new(
        "heredoc",
        "`cat > T <<E`",
        "text=$(edit < \"$T\"); pause; cat > \"$T\" <<E\n$text\nE",
    )
    .broken(Broken::Header),
    Program::new(
        "bash_group",
        "`{ a; b; } > T`",
        r#"edit < "$T" > "$N"; pause; { /bin/head -n 50 "$N"; /bin/tail -n +51 "$N"; } > "$T""#,
    ),
    Program::new(
        "bash_loop",
        "`while …; done > T` (bash)",
        r#"edit < "$T" > "$N"; pause
           while IFS= read -r line; do echo "$line"; done < "$N" > "$T""#,
    )
    .broken(Broken::Header),
    Program::new(
        "bash_exec",
        "`exec 3> T; …; exec 3>&-` (bash)",
        r#"edit < "$T" > "$N"; pause; exec 3> "$T"
           while IFS= read -r line; do printf '%s\n' "$line" >&3; done < "$N"
           exec 3>&-"#,
    )
    .broken(Broken::Header),
    Program::new(
        "noclobber",
        "`set -C; … >| T`",
        r#"set -C; edit < "$T" >| "$N"; pause; cat "$N" >| "$T""#,
    ),
    Program::new(
        "sed_onto_itself",
        "`sed … T > T`",
        r#"sed -e '1e pause' -e "s/$OLD/$NEW/" "$T" > "$T""#,
    )
    .only_in_a_mount(),
    Program::new(
        "read_write",
        "`… 1<> T` (bash)",
        r#"edit < "$T" > "$N"; pause; cat "$N" 1<> "$T""#,
    )
    .kinds(&[Kind::InPlace, Kind::Growing])
    .meanwhile(Meanwhile::Offsets),
    Program::new("bash_append", "`echo … >> T` (bash)", r#"pause; echo "$LINE" >> "$T""#)
        .style(Style::Append),
    Program::new(
        "heredoc_append",
        "`cat >> T <<E`",
        "cat \"$T\" > /dev/null; pause; cat >> \"$T\" <<E\n$LINE\nE",
    )
    .style(Style::Append),
    Program::new("tee", "`… | tee T`", r#"edit < "$T" > "$N"; pause; tee "$T" < "$N" > /dev/null"#),
    Program::new(
        "tee_append",
        "`… | tee -a T`",
        r#"pause; echo "$LINE" | tee -a "$T" > /dev/null"#,
    )
    .style(Style::Append),
    Program::new(
        "sponge",
        "`sed … T | sponge T`",
        r#"sed -e '1e pause' -e "s/$OLD/$NEW/" "$T" | tee "$N" | sponge "$T""#,
    ),
];
