//! Pure algorithms on lines: three-way merge, edits, similarity.
