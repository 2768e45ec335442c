# The edit of the matrix in kakoune: edit, pause, save; a failed save is told.
set-option global writemethod %sh{echo "$KAK_METHOD"}
set-register slash %sh{printf %s "$OLD"}
set-register dquote %sh{printf %s "$NEW"}
execute-keys '%s<ret>R'
nop %sh{pause}
try %{
    write!
} catch %{
    nop %sh{printf '%s\n' "$kak_error" > "$SCRATCH/said"}
    write! %sh{echo "$SCRATCH/rescued"}
    quit! 1
}
quit!
