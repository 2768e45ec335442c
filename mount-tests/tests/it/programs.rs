//! Real programs that save a document their own way.

use mount_tests::{Instance, samples};

fn instance() -> Instance {
    Instance::with(&[("missions.md", samples::MISSIONS), ("config.json", "{\"a\": 1}\n")])
}

/// Runs a script that edits `first task` into `first done`, and checks the result; an append by
/// somebody else that lands before the save must survive when `between` is possible.
fn edits(script: &str) {
    let it = instance();
    it.sh(script);
    assert_eq!(
        it.read("missions.md"),
        samples::MISSIONS.replace("first task", "first done"),
        "{script}"
    );
    assert_eq!(it.rows().len(), 6, "{script}");
    assert_eq!(it.count("first done"), 1, "{script}");
    let names = it.names(".");
    let mut left = names.clone();
    left.retain(|n| {
        !matches!(
            n.as_str(),
            "missions.md"
                | "config.json"
                | "config.yaml"
                | "missions.db"
                | "missions.lock"
                | "missions-quarantine.md"
        )
    });
    assert_eq!(left, Vec::<String>::new(), "left behind by {script}");
}

#[test]
fn sed_in_place() {
    edits("sed -i 's/first task/first done/' missions.md");
}

#[test]
fn sed_to_a_temporary_and_mv() {
    edits(
        "sed 's/first task/first done/' missions.md > missions.md.new && mv missions.md.new missions.md",
    );
}

#[test]
fn sed_to_another_file_system_and_mv() {
    edits("sed 's/first task/first done/' missions.md > $SCRATCH/n && mv $SCRATCH/n missions.md");
}

#[test]
fn sed_onto_itself() {
    edits("sed 's/first task/first done/' missions.md > missions.md");
}

#[test]
fn a_pipe_through_tee() {
    edits("sed 's/first task/first done/' missions.md | tee missions.md > /dev/null");
}

#[test]
fn perl_and_awk() {
    edits("perl -pi -e 's/first task/first done/' missions.md");
    edits("awk '{sub(/first task/,\"first done\")} 1' missions.md > t && mv t missions.md");
}

#[test]
fn cp_and_install() {
    edits("sed 's/first task/first done/' missions.md > $SCRATCH/n; cp $SCRATCH/n missions.md");
    edits("sed 's/first task/first done/' missions.md > $SCRATCH/n; cp -p $SCRATCH/n missions.md");
    edits(
        "sed 's/first task/first done/' missions.md > $SCRATCH/n; cp --remove-destination $SCRATCH/n missions.md",
    );
    edits(
        "sed 's/first task/first done/' missions.md > $SCRATCH/n; install $SCRATCH/n missions.md",
    );
}

#[test]
fn vim_in_its_ways() {
    for set in [
        "backupcopy=no",
        "backupcopy=yes",
        "backupcopy=auto",
        "nowritebackup",
        "nobackup noswapfile",
    ] {
        edits(&format!(
            "printf 'set nocp {set}\\n%%s/first task/first done/\\nwq\\n' | vim -Nu NONE -es missions.md"
        ));
    }
}

#[test]
fn python_in_its_ways() {
    let with = |code: &str| edits(&format!("python3 - <<'E'\n{code}\nE"));
    with(
        "t=open('missions.md').read(); open('missions.md','w').write(t.replace('first task','first done'))",
    );
    with(
        "import pathlib; p=pathlib.Path('missions.md'); p.write_text(p.read_text().replace('first task','first done'))",
    );
    with(
        "f=open('missions.md','r+'); t=f.read(); f.seek(0); f.write(t.replace('first task','first done')); f.truncate(); f.close()",
    );
    with(
        "import fileinput\nfor l in fileinput.input('missions.md', inplace=True): print(l.replace('first task','first done'), end='')",
    );
    with(
        "import os,tempfile\nt=open('missions.md').read(); fd,n=tempfile.mkstemp(dir='.'); os.write(fd,t.replace('first task','first done').encode()); os.fsync(fd); os.close(fd); os.replace(n,'missions.md')",
    );
    with(
        "import shutil,os\nt=open('missions.md').read(); n=os.environ['SCRATCH']+'/n'; open(n,'w').write(t.replace('first task','first done')); shutil.move(n,'missions.md')",
    );
    with(
        "import mmap,os\nf=open('missions.md','r+b'); m=mmap.mmap(f.fileno(),0); i=m.find(b'first task'); m[i:i+10]=b'first done'; m.flush(); m.close(); f.close()\nimport time; time.sleep(1)",
    );
}

#[test]
fn node_in_its_ways() {
    let with = |code: &str| {
        edits(&format!(
            "node - <<'E'\nconst fs=require('fs'); const t=fs.readFileSync('missions.md','utf8').replace('first task','first done');\n{code}\nE"
        ))
    };
    with("fs.writeFileSync('missions.md', t);");
    with("fs.writeFile('missions.md', t, e=>{ if(e) throw e; });");
    with("fs.promises.writeFile('missions.md', t);");
    with(
        "const s=fs.createWriteStream('missions.md'); s.write(t.slice(0,50)); s.end(t.slice(50));",
    );
    with("fs.writeFileSync('n.tmp', t); fs.renameSync('n.tmp','missions.md');");
    with(
        "const p=process.env.SCRATCH+'/n'; fs.writeFileSync(p, t); fs.copyFileSync(p,'missions.md');",
    );
    with(
        "const fd=fs.openSync('missions.md.tmp.1.abcdef','wx'); fs.writeSync(fd,t); fs.fchmodSync(fd,0o644); fs.fsyncSync(fd); fs.closeSync(fd); fs.renameSync('missions.md.tmp.1.abcdef','missions.md'); if(fs.statSync('missions.md').size!==Buffer.byteLength(t)) throw 1;",
    );
}

#[test]
fn dd_in_its_ways() {
    edits(
        "sed 's/first task/first done/' missions.md > $SCRATCH/n; dd if=$SCRATCH/n of=missions.md status=none",
    );
    edits(
        "sed 's/first task/first done/' missions.md > $SCRATCH/n; dd if=$SCRATCH/n of=missions.md conv=fsync bs=13 status=none",
    );
    edits(
        "sed 's/first task/first done/' missions.md > $SCRATCH/n; dd if=$SCRATCH/n of=missions.md conv=notrunc status=none",
    );
}

#[test]
fn jq_in_its_ways() {
    for script in [
        "jq '.a=2' config.json > config.json",
        "jq '.a=2' config.json > t && mv t config.json",
        "jq '.a=2' config.json > $SCRATCH/t && mv $SCRATCH/t config.json",
        "jq '.a=2' config.json | cat > config.json",
        "x=$(jq '.a=2' config.json); echo \"$x\" > config.json",
        "x=$(jq '.a=2' config.json); printf '%s\\n' \"$x\" > config.json",
        "jq '.a=2' config.json | tee config.json >/dev/null",
        "cp config.json t; jq '.a=2' t > config.json; rm t",
    ] {
        let it = instance();
        it.sh(script);
        assert_eq!(it.read("config.json"), "{\n  \"a\": 2\n}\n", "{script}");
        assert_eq!(it.kept(), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn shells_in_their_ways() {
    for script in [
        "t=$(cat missions.md); echo \"${t/first task/first done}\" > missions.md",
        "t=$(< missions.md); printf '%s\\n' \"${t/first task/first done}\" > missions.md",
        "cat missions.md > $SCRATCH/n; while IFS= read -r l; do echo \"${l/first task/first done}\"; done < $SCRATCH/n > missions.md",
        "cat missions.md > $SCRATCH/n; { head -n 7 $SCRATCH/n; tail -n +8 $SCRATCH/n; } | sed 's/first task/first done/' > missions.md",
        "cat missions.md > $SCRATCH/n; { /bin/sed -n '1,9s/first task/first done/;1,9p' $SCRATCH/n; /bin/sed -n '10,$p' $SCRATCH/n; } > missions.md",
        "set -C; sed 's/first task/first done/' missions.md >| missions.md",
    ] {
        edits(script);
    }
}

#[test]
fn an_append_between_an_editors_read_and_its_save_survives() {
    let it = instance();
    std::fs::write(
        it.scratch("s.vim"),
        "%s/first task/first done/\n\
         call system('touch $SCRATCH/loaded; while [ ! -e $SCRATCH/go ]; do sleep 0.05; done')\n\
         wq!\n",
    )
    .expect("write");
    // vim asks whether to save over the change; the person says yes.
    let vim = it.actor().spawn_bash(
        "( while [ ! -e $SCRATCH/done ]; do sleep 0.2; [ ! -e $SCRATCH/go ] || echo y; done ) | \
         script -qec \"vim -Nu NONE -S $SCRATCH/s.vim missions.md\" /dev/null; touch $SCRATCH/done",
    );
    mount_tests::eventually("vim has loaded", || it.scratch("loaded").exists().then_some(()));
    it.append("missions.md", "- between load and save");
    std::fs::write(it.scratch("go"), "").expect("go");
    vim.wait();
    assert_eq!(it.count("between load and save"), 1);
    assert_eq!(it.count("first done"), 1);
    assert_eq!(it.count("first task"), 0);
}

#[test]
fn an_append_between_a_nodes_read_and_its_save_survives() {
    let it = instance();
    let node = it.actor().spawn(
        "node",
        &[
            "-e",
            "const fs=require('fs'); const t=fs.readFileSync('missions.md','utf8'); const s=process.env.SCRATCH;\
             fs.writeFileSync(s+'/loaded',''); const wait=()=>{ if(!fs.existsSync(s+'/go')) return setTimeout(wait,50);\
             fs.writeFileSync('missions.md', t.replace('first task','first done').replace('- second task [project:web]\\n','')); }; wait();",
        ],
    );
    mount_tests::eventually("node has loaded", || it.scratch("loaded").exists().then_some(()));
    it.append("missions.md", "- between load and save");
    std::fs::write(it.scratch("go"), "").expect("go");
    node.wait().ok();
    assert_eq!(it.count("between load and save"), 1);
    assert_eq!(it.count("first done"), 1);
    assert_eq!(it.count("second task [project:web]"), 0);
    assert_eq!(it.rows().len(), 6);
}

#[test]
fn git_checkout_and_apply_over_a_document() {
    let it = instance();
    it.sh("git init -q -b main . && git add missions.md && git commit -qm one && \
           sed -i 's/first task/first done/' missions.md && git diff > $SCRATCH/p && git checkout -q -- missions.md");
    assert_eq!(it.read("missions.md"), samples::MISSIONS);
    it.sh("git apply $SCRATCH/p");
    assert_eq!(it.read("missions.md"), samples::MISSIONS.replace("first task", "first done"));
    assert_eq!(it.rows().len(), 6);
}
