//! Sequences that have failed once, made small.

use mount_tests::model::Op::*;
use mount_tests::model::ops::Edit::*;
use mount_tests::model::ops::{Doc, Mode, Way, Wrong, edits};

use super::again;

#[test]
fn a_title_is_one_after_a_save_by_somebody_who_has_only_appended() {
    again(&[
        Append { who: 0, doc: Doc::Missions, edits: edits([Add { number: 3, section: 0, at: 2 }]) },
        Open { who: 0, slot: 0, doc: Doc::Missions, mode: Mode::Truncate },
        Write { who: 0, slot: 0, edits: edits([]) },
        Remount,
    ]);
}

#[test]
fn a_handle_that_has_not_read_yet_reads_what_its_own_process_has_saved_meanwhile() {
    again(&[
        Open { who: 2, slot: 0, doc: Doc::Missions, mode: Mode::Read },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Add { number: 11, section: 0, at: 7 }]),
        },
        Read { who: 2, slot: 0, size: 5000 },
    ]);
}

#[test]
fn a_text_written_anew_through_an_unread_handle_removes_no_row_that_nobody_has_seen() {
    again(&[
        Open { who: 0, slot: 0, doc: Doc::Missions, mode: Mode::Both },
        Sql { edit: Add { number: 6, section: 0, at: 5 } },
        Append { who: 0, doc: Doc::Missions, edits: edits([Alter { number: 7, at: 4 }]) },
        Write { who: 0, slot: 0, edits: edits([]) },
        Remount,
    ]);
}

#[test]
fn a_good_append_to_the_other_view_takes_the_refused_text_away() {
    again(&[
        Bad { who: 2, doc: Doc::Config, way: Way::Truncate, wrong: Wrong::Broken },
        Save { who: 0, doc: Doc::Config, way: Way::Truncate, edits: edits([]) },
        Append { who: 2, doc: Doc::Config, edits: edits([Add { number: 7, section: 0, at: 4 }]) },
    ]);
}

#[test]
fn a_writer_whose_file_another_one_has_published_edits_its_own_line() {
    again(&[
        Draft { who: 0, doc: Doc::Missions, edits: edits([Add { number: 15, section: 0, at: 3 }]) },
        Look { who: 0, doc: Doc::Missions },
        Publish { who: 0, by: 2 },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Alter { number: 18, at: 4 }]),
        },
    ]);
}

#[test]
fn a_move_to_where_it_is_already_is_no_version() {
    again(&[
        Open { who: 2, slot: 0, doc: Doc::Missions, mode: Mode::Append },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([
                Drop { at: 6 },
                Add { number: 1, section: 1, at: 6 },
                Add { number: 2, section: 0, at: 5 },
            ]),
        },
        Write {
            who: 2,
            slot: 0,
            edits: edits([Move { at: 6, section: 0, to: 3 }, Add { number: 3, section: 2, at: 2 }]),
        },
        Sql { edit: Add { number: 5, section: 2, at: 5 } },
        Look { who: 0, doc: Doc::Missions },
        Rest,
        Sql { edit: Drop { at: 1 } },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Move { at: 0, section: 0, to: 4 }]),
        },
    ]);
}

#[test]
fn a_person_may_reorder_while_a_program_adds_rows() {
    again(&[
        Append { who: 0, doc: Doc::Missions, edits: edits([Add { number: 2, section: 0, at: 1 }]) },
        Append { who: 0, doc: Doc::Missions, edits: edits([Add { number: 3, section: 3, at: 0 }]) },
        Append { who: 1, doc: Doc::Missions, edits: edits([Add { number: 4, section: 0, at: 2 }]) },
        Look { who: 2, doc: Doc::Missions },
        Sql { edit: Add { number: 9, section: 2, at: 6 } },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 1, section: 0, to: 4 }]),
        },
    ]);
}

#[test]
fn a_text_that_has_come_back_is_edited_and_not_doubled() {
    again(&[
        Draft { who: 2, doc: Doc::Missions, edits: edits([]) },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Drop { at: 5 }, Add { number: 2, section: 1, at: 6 }]),
        },
        Sql { edit: Alter { number: 5, at: 7 } },
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Read },
        Sql { edit: Add { number: 7, section: 3, at: 0 } },
        Read { who: 1, slot: 0, size: 100 },
        Look { who: 0, doc: Doc::Missions },
        Publish { who: 2, by: 0 },
        Save { who: 0, doc: Doc::Missions, way: Way::Truncate, edits: edits([]) },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: edits([]) },
    ]);
}

#[test]
fn a_moved_line_stands_as_it_was_written_whatever_its_writer_believes_of_its_times() {
    again(&[
        Look { who: 1, doc: Doc::Missions },
        Draft { who: 0, doc: Doc::Missions, edits: edits([Add { number: 15, section: 0, at: 3 }]) },
        Rest,
        Publish { who: 0, by: 2 },
        Sql { edit: Add { number: 19, section: 1, at: 4 } },
        Look { who: 1, doc: Doc::Missions },
        Crash,
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([
                Note { number: 21, at: 1 },
                Move { at: 3, section: 0, to: 1 },
                Add { number: 22, section: 3, at: 7 },
            ]),
        },
        Append { who: 2, doc: Doc::Missions, edits: edits([Alter { number: 23, at: 7 }]) },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Add { number: 24, section: 0, at: 6 }]),
        },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 5, section: 3, to: 5 }]),
        },
    ]);
}

#[test]
fn an_edit_of_a_line_that_another_writer_has_saved_anew_is_no_addition() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Add { number: 2, section: 0, at: 7 }]),
        },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Add { number: 3, section: 0, at: 4 }]),
        },
        Sql { edit: Add { number: 4, section: 3, at: 4 } },
        Look { who: 2, doc: Doc::Missions },
        Look { who: 1, doc: Doc::Missions },
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Both },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Unlink,
            edits: edits([Alter { number: 7, at: 4 }, Drop { at: 6 }]),
        },
        Save { who: 2, doc: Doc::Missions, way: Way::Truncate, edits: edits([Drop { at: 4 }]) },
        Read { who: 1, slot: 0, size: 20 },
        Save { who: 1, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([
                Add { number: 13, section: 1, at: 7 },
                Add { number: 14, section: 0, at: 2 },
                Alter { number: 15, at: 4 },
            ]),
        },
    ]);
}

#[test]
fn who_has_written_after_a_crash_what_is_there_already_can_remove_it() {
    again(&[
        Save { who: 0, doc: Doc::Missions, way: Way::Truncate, edits: edits([]) },
        Remount,
        Sql { edit: Add { number: 17, section: 0, at: 1 } },
        Look { who: 0, doc: Doc::Missions },
        Append {
            who: 0,
            doc: Doc::Missions,
            edits: edits([Add { number: 19, section: 2, at: 5 }]),
        },
        Crash,
        Save { who: 0, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Save { who: 0, doc: Doc::Missions, way: Way::Rename, edits: edits([Drop { at: 6 }]) },
    ]);
}

#[test]
fn the_time_stays_where_a_save_changes_only_what_no_text_shows() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Drop { at: 7 }, Drop { at: 7 }, Add { number: 3, section: 3, at: 4 }]),
        },
        Draft {
            who: 0,
            doc: Doc::Missions,
            edits: edits([Move { at: 4, section: 3, to: 6 }, Move { at: 3, section: 0, to: 5 }]),
        },
        Sql { edit: Move { at: 5, section: 0, to: 1 } },
        Publish { who: 0, by: 0 },
    ]);
}

#[test]
fn equal_lines_are_told_apart_by_their_columns_after_a_restart() {
    again(&[
        Sql { edit: Add { number: 1, section: 0, at: 7 } },
        Append { who: 1, doc: Doc::Missions, edits: edits([Alter { number: 7, at: 7 }]) },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Move { at: 0, section: 2, to: 6 }]),
        },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 0, section: 2, to: 7 }]),
        },
        Remount,
    ]);
}

#[test]
fn a_file_that_is_renamed_onto_the_name_is_no_backup() {
    again(&[
        Look { who: 2, doc: Doc::Missions },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Add { number: 8, section: 3, at: 2 }]),
        },
        Look { who: 2, doc: Doc::Missions },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Alter { number: 21, at: 5 }]),
        },
        Save { who: 2, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
    ]);
}

#[test]
fn whoever_has_saved_from_a_version_has_not_started_from_an_older_one() {
    let alter = |number, at| edits([Alter { number, at }]);
    again(&[
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Add { number: 9, section: 2, at: 3 }]),
        },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Add { number: 10, section: 0, at: 1 }]),
        },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: alter(11, 6) },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: alter(12, 2) },
        Append {
            who: 1,
            doc: Doc::Missions,
            edits: edits([Add { number: 13, section: 2, at: 3 }]),
        },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: edits([]) },
    ]);
}

#[test]
fn what_is_read_after_a_restart_outlives_the_next_one_too() {
    again(&[
        Sql { edit: Add { number: 14, section: 3, at: 4 } },
        Term,
        Look { who: 1, doc: Doc::Missions },
        Term,
        Save { who: 1, doc: Doc::Missions, way: Way::Rename, edits: edits([Drop { at: 2 }]) },
    ]);
}

#[test]
fn a_save_is_met_once_by_its_writer() {
    again(&[
        Save { who: 2, doc: Doc::Config, way: Way::Keep, edits: edits([]) },
        Command { number: 3, at: 6 },
        Look { who: 0, doc: Doc::Config },
        Save {
            who: 2,
            doc: Doc::Config,
            way: Way::Backup,
            edits: edits([Add { number: 4, section: 3, at: 0 }]),
        },
        Save { who: 0, doc: Doc::Config, way: Way::Truncate, edits: edits([]) },
        Append { who: 0, doc: Doc::Config, edits: edits([Add { number: 9, section: 1, at: 7 }]) },
        Save {
            who: 0,
            doc: Doc::Config,
            way: Way::Backup,
            edits: edits([Add { number: 11, section: 0, at: 2 }]),
        },
    ]);
}

#[test]
fn a_rename_of_the_current_text_is_met_once_by_its_writer() {
    again(&[
        Sql { edit: Add { number: 1, section: 0, at: 1 } },
        Look { who: 2, doc: Doc::Missions },
        Crash,
        Save { who: 2, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
        Append {
            who: 2,
            doc: Doc::Missions,
            edits: edits([Add { number: 11, section: 0, at: 6 }]),
        },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Add { number: 13, section: 0, at: 4 }]),
        },
    ]);
}

#[test]
fn a_text_that_was_there_before_is_what_its_last_writer_meant() {
    again(&[
        Sql { edit: Add { number: 3, section: 3, at: 4 } },
        Look { who: 0, doc: Doc::Missions },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Unlink,
            edits: edits([Add { number: 6, section: 2, at: 1 }]),
        },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([
                Move { at: 5, section: 0, to: 2 },
                Move { at: 5, section: 0, to: 3 },
                Alter { number: 8, at: 7 },
            ]),
        },
        Sql { edit: Move { at: 4, section: 1, to: 5 } },
        Look { who: 0, doc: Doc::Missions },
        Save { who: 2, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Move { at: 4, section: 0, to: 4 }]),
        },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Unlink,
            edits: edits([
                Note { number: 19, at: 5 },
                Add { number: 20, section: 2, at: 7 },
                Drop { at: 7 },
            ]),
        },
    ]);
}

#[test]
fn lines_without_a_header_are_pending_when_versions_are_compared() {
    again(&[
        Append { who: 1, doc: Doc::Missions, edits: edits([Add { number: 1, section: 0, at: 1 }]) },
        Sql { edit: Add { number: 2, section: 0, at: 3 } },
        Sql { edit: Move { at: 5, section: 1, to: 3 } },
        Look { who: 1, doc: Doc::Missions },
        Append { who: 1, doc: Doc::Missions, edits: edits([Alter { number: 3, at: 4 }]) },
        Save { who: 1, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
    ]);
}

#[test]
fn a_file_that_was_renamed_onto_the_name_is_no_backup_later() {
    again(&[
        Open { who: 0, slot: 1, doc: Doc::Missions, mode: Mode::Truncate },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Unlink,
            edits: edits([Add { number: 9, section: 2, at: 4 }]),
        },
        Look { who: 0, doc: Doc::Missions },
        Save { who: 0, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
        Write { who: 0, slot: 1, edits: edits([Add { number: 14, section: 2, at: 1 }]) },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Alter { number: 16, at: 7 }]),
        },
        Remount,
    ]);
}

#[test]
fn a_refused_text_stays_whose_name_was_somebody_elses_before() {
    again(&[
        Open { who: 2, slot: 1, doc: Doc::Missions, mode: Mode::Truncate },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Add { number: 5, section: 3, at: 3 }]),
        },
        Fsync { who: 2, slot: 1 },
        Write { who: 2, slot: 1, edits: edits([]) },
        Save { who: 2, doc: Doc::Missions, way: Way::Keep, edits: edits([Drop { at: 1 }]) },
        Bad { who: 1, doc: Doc::Missions, way: Way::Keep, wrong: Wrong::Blank },
        Remount,
    ]);
}

#[test]
fn of_equal_missions_all_must_be_there_to_know_a_version() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Drop { at: 2 }, Add { number: 2, section: 0, at: 2 }]),
        },
        Look { who: 0, doc: Doc::Missions },
        Append { who: 0, doc: Doc::Missions, edits: edits([Alter { number: 4, at: 3 }]) },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([
                Note { number: 6, at: 4 },
                Add { number: 7, section: 0, at: 0 },
                Alter { number: 8, at: 7 },
            ]),
        },
    ]);
}

#[test]
fn texts_that_are_equal_are_one_version_after_a_restart_too() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Add { number: 5, section: 0, at: 2 }]),
        },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 1, section: 0, to: 0 }, Add { number: 7, section: 2, at: 2 }]),
        },
        Remount,
        Save { who: 0, doc: Doc::Missions, way: Way::Truncate, edits: edits([Drop { at: 4 }]) },
        Look { who: 0, doc: Doc::Missions },
        Open { who: 0, slot: 0, doc: Doc::Missions, mode: Mode::Both },
        Write { who: 0, slot: 0, edits: edits([Alter { number: 12, at: 3 }]) },
        Close { who: 0, slot: 0 },
    ]);
}
#[test]
fn one_that_went_and_came_back_stands_where_others_have_put_it() {
    again(&[
        Append {
            who: 2,
            doc: Doc::Missions,
            edits: edits([Add { number: 10, section: 1, at: 7 }]),
        },
        Append {
            who: 0,
            doc: Doc::Missions,
            edits: edits([Add { number: 11, section: 1, at: 6 }]),
        },
        Sql { edit: Add { number: 14, section: 2, at: 7 } },
        Look { who: 2, doc: Doc::Missions },
        Crash,
        Remount,
        Save { who: 0, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Save { who: 2, doc: Doc::Missions, way: Way::Truncate, edits: edits([]) },
        Append {
            who: 2,
            doc: Doc::Missions,
            edits: edits([Add { number: 17, section: 1, at: 3 }]),
        },
        Crash,
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 1, section: 0, to: 3 }]),
        },
    ]);
}
#[test]
fn what_is_added_beside_one_that_came_back_stands_beside_it() {
    again(&[
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Add { number: 6, section: 0, at: 7 }]),
        },
        CrashIn { who: 2, doc: Doc::Missions, way: Some(Way::Rename), edits: edits([]), after: 0 },
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Add { number: 13, section: 2, at: 6 }]),
        },
        Save { who: 2, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: edits([]) },
        Draft {
            who: 0,
            doc: Doc::Missions,
            edits: edits([Note { number: 20, at: 1 }, Add { number: 21, section: 0, at: 0 }]),
        },
        Publish { who: 0, by: 0 },
    ]);
}
#[test]
fn what_two_have_made_of_a_mission_is_one_if_it_is_the_same() {
    again(&[
        Save { who: 2, doc: Doc::Missions, way: Way::Unlink, edits: edits([]) },
        Term,
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Add { number: 3, section: 0, at: 4 }]),
        },
        Look { who: 2, doc: Doc::Missions },
        Crash,
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Alter { number: 6, at: 4 }, Move { at: 7, section: 1, to: 3 }]),
        },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Move { at: 4, section: 0, to: 0 }, Add { number: 9, section: 2, at: 3 }]),
        },
        Look { who: 2, doc: Doc::Missions },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Truncate,
            edits: edits([Alter { number: 11, at: 3 }, Drop { at: 3 }]),
        },
    ]);
}
#[test]
fn what_is_met_after_a_rest_is_not_on_record_yet() {
    again(&[
        Sql { edit: Add { number: 1, section: 2, at: 3 } },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Keep,
            edits: edits([Add { number: 4, section: 0, at: 6 }]),
        },
        Look { who: 1, doc: Doc::Missions },
        Crash,
        Rest,
        Look { who: 0, doc: Doc::Missions },
        CrashIn {
            who: 1,
            doc: Doc::Missions,
            way: None,
            edits: edits([Move { at: 1, section: 2, to: 4 }, Add { number: 8, section: 2, at: 5 }]),
            after: 1000,
        },
        Save {
            who: 1,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Move { at: 1, section: 1, to: 7 }]),
        },
        Save { who: 0, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
    ]);
}
#[test]
fn one_that_came_back_by_a_rename_stands_where_that_has_put_it() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([
                Add { number: 1, section: 3, at: 3 },
                Add { number: 2, section: 3, at: 3 },
                Drop { at: 1 },
            ]),
        },
        Sql { edit: Add { number: 3, section: 2, at: 1 } },
        Append { who: 1, doc: Doc::Missions, edits: edits([Add { number: 4, section: 0, at: 3 }]) },
        Open { who: 0, slot: 1, doc: Doc::Missions, mode: Mode::Both },
        Look { who: 2, doc: Doc::Missions },
        Look { who: 0, doc: Doc::Missions },
        Draft {
            who: 2,
            doc: Doc::Missions,
            edits: edits([
                Note { number: 5, at: 2 },
                Unnote { at: 2 },
                Add { number: 6, section: 0, at: 1 },
            ]),
        },
        Save { who: 2, doc: Doc::Missions, way: Way::Unlink, edits: edits([Drop { at: 6 }]) },
        Publish { who: 2, by: 2 },
        Write { who: 0, slot: 1, edits: edits([Move { at: 3, section: 0, to: 2 }]) },
        Close { who: 0, slot: 1 },
    ]);
}

#[test]
fn an_edit_in_place_starts_from_what_was_there_when_it_began() {
    again(&[
        Append { who: 1, doc: Doc::Missions, edits: edits([Add { number: 1, section: 1, at: 4 }]) },
        Append { who: 0, doc: Doc::Missions, edits: edits([Add { number: 2, section: 0, at: 2 }]) },
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Both },
        Patch { who: 1, slot: 0, at: 7, number: 3 },
        Append { who: 2, doc: Doc::Missions, edits: edits([Alter { number: 6, at: 1 }]) },
        Remount,
    ]);
}

#[test]
fn two_refusals_of_one_text_are_one_file() {
    again(&[
        Open { who: 0, slot: 0, doc: Doc::Missions, mode: Mode::Truncate },
        Fsync { who: 0, slot: 0 },
        Open { who: 0, slot: 1, doc: Doc::Missions, mode: Mode::Truncate },
        Write { who: 0, slot: 0, edits: edits([]) },
        Close { who: 0, slot: 1 },
        Exit { who: 0 },
    ]);
}

#[test]
fn two_json_texts_that_are_one_in_yaml_are_two_versions() {
    again(&[
        Save { who: 0, doc: Doc::Config, way: Way::Rename, edits: edits([]) },
        Command { number: 13, at: 4 },
        Look { who: 1, doc: Doc::Config },
        Look { who: 0, doc: Doc::Config },
        Save {
            who: 0,
            doc: Doc::Config,
            way: Way::Unlink,
            edits: edits([Move { at: 3, section: 0, to: 3 }]),
        },
        Append { who: 1, doc: Doc::Config, edits: edits([Add { number: 20, section: 3, at: 6 }]) },
        Save {
            who: 1,
            doc: Doc::Config,
            way: Way::Backup,
            edits: edits([Note { number: 21, at: 1 }]),
        },
    ]);
}

#[test]
fn a_handle_from_before_the_removal_does_not_bring_the_name_back() {
    again(&[
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Both },
        Write { who: 1, slot: 0, edits: edits([]) },
        Unlink { who: 1, doc: Doc::Missions },
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Both },
    ]);
}

#[test]
fn what_a_renamer_has_met_is_used_up_by_the_rename() {
    again(&[
        Open { who: 2, slot: 1, doc: Doc::Config, mode: Mode::Both },
        Save {
            who: 0,
            doc: Doc::Config,
            way: Way::Unlink,
            edits: edits([
                Drop { at: 1 },
                Move { at: 7, section: 3, to: 4 },
                Add { number: 12, section: 0, at: 7 },
            ]),
        },
        Draft { who: 1, doc: Doc::Config, edits: edits([]) },
        Draft { who: 2, doc: Doc::Config, edits: edits([]) },
        Publish { who: 1, by: 2 },
        Publish { who: 2, by: 0 },
    ]);
}

#[test]
fn how_new_a_text_is_outlives_the_daemon() {
    again(&[
        Sql { edit: Add { number: 1, section: 2, at: 0 } },
        Save { who: 2, doc: Doc::Missions, way: Way::Truncate, edits: edits([]) },
        Look { who: 2, doc: Doc::Missions },
        Append { who: 1, doc: Doc::Missions, edits: edits([Note { number: 5, at: 7 }]) },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([
                Add { number: 10, section: 2, at: 0 },
                Add { number: 11, section: 0, at: 3 },
            ]),
        },
        Save { who: 0, doc: Doc::Missions, way: Way::Rename, edits: edits([]) },
        Remount,
        CrashIn {
            who: 2,
            doc: Doc::Missions,
            way: Some(Way::Truncate),
            edits: edits([Drop { at: 7 }, Move { at: 3, section: 1, to: 5 }]),
            after: 400,
        },
    ]);
}

#[test]
fn two_writers_of_one_text_mean_each_their_own_missions() {
    again(&[
        Save {
            who: 0,
            doc: Doc::Missions,
            way: Way::Rename,
            edits: edits([Add { number: 2, section: 2, at: 0 }]),
        },
        Save { who: 1, doc: Doc::Missions, way: Way::Truncate, edits: edits([]) },
        Save { who: 2, doc: Doc::Missions, way: Way::Keep, edits: edits([]) },
        Append { who: 1, doc: Doc::Missions, edits: edits([Alter { number: 7, at: 0 }]) },
        Save { who: 1, doc: Doc::Missions, way: Way::Backup, edits: edits([]) },
        Sql { edit: Add { number: 11, section: 0, at: 0 } },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Unlink,
            edits: edits([Move { at: 6, section: 0, to: 7 }]),
        },
        Save {
            who: 2,
            doc: Doc::Missions,
            way: Way::Backup,
            edits: edits([Add { number: 13, section: 0, at: 0 }]),
        },
    ]);
}

#[test]
fn an_append_says_nothing_of_refused_lines() {
    again(&[
        Open { who: 1, slot: 0, doc: Doc::Missions, mode: Mode::Append },
        Spoil { who: 1, slot: 0, wrong: Wrong::Broken },
        Rest,
        Append {
            who: 1,
            doc: Doc::Missions,
            edits: edits([Add { number: 22, section: 3, at: 6 }]),
        },
    ]);
}

#[test]
fn a_text_of_its_own_that_is_read_again_later_is_met_twice() {
    again(&[
        Save {
            who: 1,
            doc: Doc::Config,
            way: Way::Unlink,
            edits: edits([Add { number: 3, section: 1, at: 2 }]),
        },
        Rest,
        Save {
            who: 1,
            doc: Doc::Config,
            way: Way::Keep,
            edits: edits([Add { number: 14, section: 0, at: 3 }]),
        },
        Save {
            who: 1,
            doc: Doc::Config,
            way: Way::Unlink,
            edits: edits([Add { number: 16, section: 3, at: 6 }, Drop { at: 7 }]),
        },
    ]);
}
