// Watches `memory` and `events` with the chokidar that argv[2] names, prints one line for each
// change that it reports: the file and whether a read in the handler gives the new text.
const fs = require('fs');
const chokidar = require(process.argv[2]);

const watcher = chokidar.watch(['memory', 'events'], { ignoreInitial: true });
watcher.on('all', (event, path) => {
  if (path.includes('.tmp')) return;
  let text = '';
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (e) {
    text = e.code;
  }
  if (event === 'change') console.log(`${path} ${text.includes('fresh') ? 'new' : 'old'}`);
});
watcher.on('ready', () => console.log('watching'));
