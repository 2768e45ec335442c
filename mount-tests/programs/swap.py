"""One of several programs that share a config, each in its own way.

usage: swap.py swap BIN ID ROUNDS        read, raise, `config set - --expect-sha256`, again on 3
       swap.py in-place|rename ID STOP   save through the mount until the file STOP is there

Prints in one JSON object what it has done.
"""
import json, os, random, subprocess, sys, time

role, *args = sys.argv[1:]


def swap(program, me, rounds):
    codes, odd = {}, []
    for _ in range(int(rounds)):
        tries = 0
        while True:
            got = subprocess.run([program, 'config', 'get', '--with-sha256'], capture_output=True)
            if got.returncode != 0:
                odd.append(f'get: {got.returncode}: {got.stderr.decode()}')
                return codes, odd
            seen = json.loads(got.stdout)
            config = seen['config']
            config['all'] += 1
            config['swaps'][me] = config['swaps'].get(me, 0) + 1
            put = subprocess.run(
                [program, 'config', 'set', '-', '--expect-sha256', seen['sha256']],
                input=json.dumps(config).encode(), capture_output=True)
            codes[put.returncode] = codes.get(put.returncode, 0) + 1
            said = put.stderr.decode()
            if put.returncode == 0 and said == '':
                break
            if put.returncode != 3 or said != 'config changed since it was read\n':
                odd.append(f'set: {put.returncode}: {said}')
                return codes, odd
            tries += 1
            time.sleep(random.uniform(0, min(0.05 * 2 ** tries, 2)))
    return codes, odd


def save(me, stop):
    saves = 0
    while not os.path.exists(stop):
        with open('config.json') as f:
            config = json.load(f)
        config['saves'][me] = config['saves'].get(me, 0) + 1
        if role == 'rename':
            name = f'config.json.{me}'
            with open(name, 'w') as f:
                json.dump(config, f, indent=2)
            os.rename(name, 'config.json')
        else:
            with open('config.json', 'w') as f:
                json.dump(config, f, indent=1)
        saves += 1
        time.sleep(random.uniform(0.2, 1))
    return saves


if role == 'swap':
    codes, odd = swap(*args)
    print(json.dumps({'codes': codes, 'odd': odd}))
else:
    print(json.dumps({'saves': save(*args)}))
