# The edit of the matrix for `perl -p`: one word in the whole text becomes another one.
BEGIN { ($new = $ENV{NEW}) =~ s/\\x00/\0/g }
system('pause') if $. == 1;
s/\Q$ENV{OLD}\E/$new/;
