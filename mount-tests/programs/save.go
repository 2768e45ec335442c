// Saves the file $T with $OLD replaced by $NEW by os.WriteFile. Built by scripts/programs.sh.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	name := os.Getenv("T")
	text, err := os.ReadFile(name)
	if err == nil {
		err = exec.Command("pause").Run()
	}
	if err == nil {
		word := strings.ReplaceAll(os.Getenv("NEW"), `\x00`, "\x00")
		edited := strings.Replace(string(text), os.Getenv("OLD"), word, 1)
		err = os.WriteFile(name, []byte(edited), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
