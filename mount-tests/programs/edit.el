;; The edit of the matrix in Emacs: edit, pause, save; a failed save is told.
(setq native-comp-deferred-compilation nil
      native-comp-enable-subr-trampolines nil
      require-final-newline nil
      vc-handled-backends nil
      coding-system-for-read 'utf-8-unix
      ;; Every run is the first save of a session: it makes the backup.
      version-control nil
      backup-by-copying (equal (getenv "EMACS") "copying")
      file-precious-flag (equal (getenv "EMACS") "precious"))
(find-file (getenv "T"))
(goto-char (point-min))
(search-forward (getenv "OLD"))
(replace-match (getenv "NEW") t t)
(call-process "pause")
;; The answer "yes" to "has changed since visited; save anyway?".
(set-visited-file-modtime)
(condition-case problem
    (save-buffer)
  (error
   (let ((scratch (getenv "SCRATCH")))
     (write-region (error-message-string problem) nil (concat scratch "/said"))
     (let ((file-precious-flag nil))
       (write-region nil nil (concat scratch "/rescued"))))
   (set-buffer-modified-p nil)
   (kill-emacs 1)))
(kill-emacs 0)
