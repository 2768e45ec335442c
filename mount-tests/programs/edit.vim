" The edit of the matrix in vim and neovim: edit, pause, save; a failed save is told.
execute 'set ' . $VIM_SET
" In the replacement of :s a line feed stands for NUL.
silent execute '%s/' . $OLD . '/' . substitute($NEW, '\\x00', '\\n', '') . '/'
call system('pause')
try
  silent write!
catch
  call writefile([v:exception], $SCRATCH . '/said')
  set patchmode= nobackup
  silent execute 'write! ' . $SCRATCH . '/rescued'
  cquit
endtry
qall!
