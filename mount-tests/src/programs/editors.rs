//! Editors. Those with a script of their own run without a terminal, the others are driven on a
//! pseudo terminal by `pty_drive.py`. All of them load, edit, wait, and save, and answer "yes"
//! to "the file has changed, save anyway?". After a failed save they write their buffer to
//! another place, which shows that they still have it, and exit with 1.

use super::{Broken, Program};

const fn editor(id: &'static str, title: &'static str, script: &'static str) -> Program {
    Program::new(id, title, script).broken(Broken::Header)
}

/// In the order of the table.
pub(super) const ALL: &[Program] = &[
    vim("vim_auto", "vim, `backupcopy=auto`", "vim_edit backupcopy=auto"),
    vim("vim_no", "vim, `backupcopy=no`", "vim_edit backupcopy=no"),
    vim("vim_yes", "vim, `backupcopy=yes`", "vim_edit backupcopy=yes"),
    vim("vim_nowritebackup", "vim, `nowritebackup`", "vim_edit nowritebackup"),
    vim("vim_backup", "vim, `backup`", "vim_edit backup backupcopy=auto").backup("T~"),
    vim(
        "vim_patchmode",
        "vim, `patchmode=.orig`",
        "vim_edit patchmode=.orig; code=$?; rm -f \"$T.orig\"; exit $code",
    ),
    editor("nvim", "neovim", "nvim_edit backupcopy=auto"),
    editor("nvim_yes", "neovim, `backupcopy=yes`", "nvim_edit backupcopy=yes"),
    editor("nano", "nano", r#"pty_drive.py nano "$T""#),
    editor("nano_backup", "nano `-B`", r#"pty_drive.py nano -B "$T""#).backup("T~"),
    editor("emacs_batch", "Emacs `--batch`", r#"emacs -Q --batch -l "$PROGRAMS/edit.el""#)
        .backup("T~"),
    editor("emacs", "Emacs `-nw`", r#"pty_drive.py emacs"#).backup("T~"),
    editor("emacs_copying", "Emacs, `backup-by-copying`", "EMACS=copying pty_drive.py emacs")
        .backup("T~"),
    editor("emacs_precious", "Emacs, `file-precious-flag`", "EMACS=precious pty_drive.py emacs")
        .backup("T~"),
    editor("micro", "micro", r#"pty_drive.py micro "$T""#),
    editor("kakoune", "kakoune", "kak_edit overwrite"),
    editor("kakoune_replace", "kakoune, `writemethod=replace`", "kak_edit replace"),
    editor("joe", "joe", r#"pty_drive.py joe "$T""#).backup("T~"),
    editor(
        "ed",
        "ed",
        r#"printf '%s\n' H "g/$OLD/s//$NEW/" '!pause' w "w $SCRATCH/rescued" Q | ed -s "$T""#,
    ),
    editor("mcedit", "mcedit", r#"pty_drive.py mcedit "$T""#),
    editor("busybox_vi", "vi (busybox)", r#"pty_drive.py busybox_vi "$T""#),
];

const fn vim(id: &'static str, title: &'static str, script: &'static str) -> Program {
    Program::new(id, title, script)
}
