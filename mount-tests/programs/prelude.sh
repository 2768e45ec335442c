# What every script of the matrix starts with. $T is the file, $OLD the word in it that becomes
# $NEW (\x00 in it is a NUL byte), $LINE a line to append, $N a file elsewhere.
PATH=$PROGRAMS:$INSTALLED:$BUILT:$PATH
N=$SCRATCH/n

# The edit itself, from standard input to standard output.
edit() { sed "s/$OLD/$NEW/"; }

# A git repository in the directory $1 whose only commit has the edited text, while the
# work tree still has the one before.
repository() {
    rm -rf "$1"
    export GIT_DIR=$1 GIT_WORK_TREE=$PWD
    edit < "$T" > "$N"
    git init -q -b main
    git update-index --add --cacheinfo "100644,$(git hash-object -w --no-filters "$N"),$T"
    git commit -q -m edited
}

# Editors that can be given a script. Options of the editor are the arguments.
vim_edit() { VIM_SET=$* pty_drive.py vim vim -Nu NONE -i NONE -S "$PROGRAMS/edit.vim" "$T"; }
nvim_edit() { VIM_SET=$* pty_drive.py vim nvim -u NONE -i NONE -S "$PROGRAMS/edit.vim" "$T"; }
kak_edit() { KAK_METHOD=$1 kak -n -ui dummy -e 'source "%sh{echo $PROGRAMS}/edit.kak"' "$T"; }
