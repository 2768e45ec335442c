#!/usr/bin/env node
// Saves the file $T with $OLD replaced by $NEW, in the way that the argument names. A save
// that the program hears to be refused ends with the error's text and exit code 1.
'use strict';
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');

const { T, OLD, NEW, LINE, SCRATCH } = process.env;
const pause = () => spawnSync('pause', { stdio: 'inherit' });
const changed = () => fs.existsSync(path.join(SCRATCH, 'changed'));

function read() {
  const text = fs.readFileSync(T, 'utf8');
  if (!text.includes(OLD)) throw new Error('nothing to edit');
  pause();
  return text.replace(OLD, () => NEW.replace('\\x00', '\0'));
}

function checkSize(text) {
  // The size is that of the newest version, which is another one after a merge.
  const size = fs.statSync(T).size;
  if (!changed() && size !== Buffer.byteLength(text)) throw new Error(`size ${size} after the save`);
}

const ways = {
  sync: () => fs.writeFileSync(T, read()),
  callback: () => new Promise((resolve, reject) =>
    fs.writeFile(T, read(), (error) => (error ? reject(error) : resolve()))),
  promise: () => fs.promises.writeFile(T, read()),
  stream: () => new Promise((resolve, reject) => {
    const text = read();
    const stream = fs.createWriteStream(T);
    stream.on('error', reject);
    stream.on('close', resolve);
    stream.write(text.slice(0, 1000));
    stream.end(text.slice(1000));
  }),
  append: () => { pause(); fs.appendFileSync(T, LINE + '\n'); },
  copy: () => {
    const elsewhere = path.join(SCRATCH, 'n');
    fs.writeFileSync(elsewhere, read());
    fs.copyFileSync(elsewhere, T);
  },
  rename: () => {
    fs.writeFileSync(T + '.tmp', read());
    fs.renameSync(T + '.tmp', T);
  },
  atomic: () => require('write-file-atomic')(T, read()),
  agent_temp: async () => {
    const text = read();
    const hex = require('crypto').randomBytes(6).toString('hex');
    const temp = `${T}.tmp.${process.pid}.${hex}`;
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
    const handle = await fs.promises.open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    await handle.writeFile(text);
    await handle.chmod((await fs.promises.stat(T)).mode & 0o777);
    await handle.sync();
    await handle.close();
    try {
      await fs.promises.rename(temp, T);
    } catch (error) {
      await fs.promises.unlink(temp);
      throw error;
    }
    checkSize(text);
  },
  agent_in_place: async () => {
    const text = read();
    const handle = await fs.promises.open(T, 'w');
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close().catch(() => {});
    }
    checkSize(text);
  },
};

(async () => ways[process.argv[2]]())().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
