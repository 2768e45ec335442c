// Saves $T with $OLD replaced by $NEW after the test (`pause`) has let it go on: `vscode` by a
// truncating open, write, fdatasync, close and stat; `tool` reads the file once more, to show a
// diff of what it writes.
const fs = require('fs');
const { execFileSync } = require('child_process');
const { T, OLD, NEW } = process.env;

const text = fs.readFileSync(T, 'utf8').replace(OLD, () => NEW);
execFileSync('pause');
if (process.argv[2] === 'tool') {
    fs.readFileSync(T, 'utf8');
    fs.writeFileSync(T, text);
} else {
    fs.statSync(T);
    const fd = fs.openSync(T, 'w');
    fs.writeSync(fd, text);
    fs.fdatasyncSync(fd);
    fs.closeSync(fd);
    fs.statSync(T);
}
