// Runs each list of commands that comes as a line of JSON, all of a list at once, each detached
// (a session of its own); answers with their exit codes.
const { spawn } = require('child_process');
const { createInterface } = require('readline');

const one = (cmd) => new Promise((done) => {
    spawn('bash', ['-c', cmd], { detached: true, stdio: 'ignore' }).on('exit', done);
});

createInterface({ input: process.stdin }).on('line', async (line) => {
    console.log(JSON.stringify(await Promise.all(JSON.parse(line).map(one))));
});
