//! The program matrix: every program x every document x every kind of edit on a real mount, the
//! same programs with a save that is no valid document, and a thousand saves in a row.
//!
//! `scripts/programs.sh` installs the programs; a missing one fails its test. Each test leaves
//! its line of the table in the build directory, the `saves-table` binary makes docs/SAVES.md
//! of them.

mod disk;
mod matrix;
mod thousand;
mod watchers;

/// One test per program, so that they run side by side.
macro_rules! programs {
    (anywhere { $($id:ident)* } only_in_a_mount { $($only:ident)* }) => {
        mod on_disk {
            $(#[test] fn $id() { crate::disk::saves(stringify!($id)); })*
        }
        mod on_the_mount {
            $(#[test] fn $id() { crate::matrix::row(stringify!($id)); })*
            $(#[test] fn $only() { crate::matrix::row(stringify!($only)); })*
        }
        #[test]
        fn every_program_has_its_tests() {
            let all = mount_tests::programs::all();
            let ids = |on_disk: bool| -> Vec<_> {
                all.iter().filter(|one| one.on_disk == on_disk).map(|one| one.id).collect()
            };
            assert_eq!(ids(true), [$(stringify!($id)),*]);
            assert_eq!(ids(false), [$(stringify!($only)),*]);
        }
    };
}

programs! {
    anywhere {
        bash_redirect cat_redirect heredoc bash_group bash_loop bash_exec noclobber read_write
        bash_append heredoc_append tee tee_append sponge sed sed_backup perl perl_backup gawk
        busybox_sed temp_mv mv_across mv_backup cp cp_p cp_backup cp_remove busybox_cp install
        rsync rsync_inplace rsync_backup dd dd_fsync dd_notrunc truncate tar tar_overwrite
        patch patch_backup git_checkout git_inside git_stash git_apply jq_temp py_write
        py_write_binary py_write_read py_read_write py_truncate_first py_append py_pathlib
        py_not_closed py_replace py_tempfile py_copy py_copy2 py_move py_fileinput
        py_fileinput_backup py_mmap py_flock node_sync node_callback node_promise node_stream
        node_append node_copy node_rename node_atomic go_write rust_write rust_sync
        sqlite_writefile agent_temp agent_temp_node agent_in_place agent_threads
        agent_jetbrains agent_vscode agent_gio vim_auto vim_no vim_yes vim_nowritebackup
        vim_backup vim_patchmode nvim nvim_yes nano nano_backup emacs_batch emacs
        emacs_copying emacs_precious micro kakoune kakoune_replace joe ed mcedit busybox_vi
    }
    only_in_a_mount { sed_onto_itself jq_onto_itself }
}

#[test]
fn the_documentation_names_every_program() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SAVES.md");
    let page = std::fs::read_to_string(page).expect("docs/SAVES.md");
    let missing: Vec<_> = mount_tests::programs::all()
        .into_iter()
        .filter(|one| !page.contains(&format!("| {} |", mount_tests::programs::table::title(one))))
        .map(|one| one.id)
        .collect();
    assert!(missing.is_empty(), "run scripts/programs.sh --table: {missing:?}");
    assert!(!page.contains("not run"), "a row of the table is missing");
}
