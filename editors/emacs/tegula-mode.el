;;; tegula-mode.el --- Tile programs for GPUs  -*- lexical-binding: t -*-

;; Version: 0.1
;; Package-Requires: ((emacs "27.1"))

;;; Commentary:

;; Colours and indentation of .tgl files.  With Emacs 29, `M-x eglot' starts the language server.

;;; Code:

(defconst tegula-declarations
  '("kernel" "fn" "reference" "example" "expect" "import" "const" "let" "var"))

(defconst tegula-control
  '("for" "while" "if" "else" "return" "static" "range" "merge"))

(defconst tegula-clauses
  '("in" "out" "inout" "scratch" "fixed" "strided" "mut" "where" "grid" "tune" "bench" "as" "new"))

(defconst tegula-types
  '("bf16" "bool" "f16" "f32" "f4e2m1" "f64" "f8e4m3" "f8e5m2" "i16" "i32" "i4" "i64" "i8" "u16" "u32"
    "u4" "u64" "u8" "dtype"))

(defconst tegula-constants
  '("true" "false" "inf" "nan" "pi" "target"))

(defconst tegula-operations
  '("abs" "acos" "all" "any" "arange" "argmax" "argmin" "argsort" "asin" "assert" "atan" "atan2"
    "atomic_add" "atomic_and" "atomic_cas" "atomic_exchange" "atomic_max" "atomic_min" "atomic_or"
    "atomic_xor" "bitcast" "broadcast_to" "cat" "cdiv" "ceil" "clamp" "clz" "cos" "cosh" "cumprod"
    "cumsum" "div" "dot" "dot_scaled" "erf" "exp" "exp2" "expand_dims" "expm1" "file" "flip" "floor"
    "floordiv" "fma" "full" "gather" "histogram" "inline_ptx" "integers" "iota" "join" "load" "log"
    "log1p" "log2" "max" "mean" "min" "normal" "num_programs" "ones" "permutation" "permute" "philox"
    "popcount" "pow" "pow2ceil" "prefetch" "print" "prod" "program_id" "rand" "randint" "randn" "reduce"
    "reshape" "roll" "round" "rsqrt" "scan" "scatter" "shift" "sigmoid" "sin" "sinh" "sort" "split"
    "sqrt" "static_assert" "store" "sum" "tan" "tanh" "topk" "trans" "trunc" "umulhi" "uniform" "where"
    "xor_sum" "zeros"))

(defvar tegula-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?_ "w" table)
    table))

(defconst tegula-font-lock
  (list (cons (regexp-opt tegula-declarations 'words) font-lock-keyword-face)
        (cons (regexp-opt tegula-control 'words) font-lock-keyword-face)
        (cons (regexp-opt tegula-clauses 'words) font-lock-keyword-face)
        (cons (regexp-opt tegula-types 'words) font-lock-type-face)
        (cons (regexp-opt tegula-constants 'words) font-lock-constant-face)
        (cons (regexp-opt tegula-operations 'words) font-lock-builtin-face)
        '("\\<\\(?:kernel\\|fn\\|reference\\|example\\|expect\\)\\s-+\\(\\w+\\)" 1 font-lock-function-name-face)))

(defun tegula-indent-line ()
  "Indent by four columns for each bracket that is open at the line's start."
  (interactive)
  (let* ((depth (save-excursion (back-to-indentation) (car (syntax-ppss))))
         (closes (save-excursion (back-to-indentation) (looking-at "[])}]")))
         (column (* 4 (max 0 (- depth (if closes 1 0))))))
    (save-excursion (indent-line-to column))
    (when (< (current-column) column) (back-to-indentation))))

;;;###autoload
(define-derived-mode tegula-mode prog-mode "Tegula"
  "Major mode for Tegula's tile programs."
  (setq-local comment-start "// " comment-end "" indent-tabs-mode nil
              indent-line-function #'tegula-indent-line
              font-lock-defaults '(tegula-font-lock)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.tgl\\'" . tegula-mode))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(tegula-mode . ("tegula" "lsp"))))

(provide 'tegula-mode)
;;; tegula-mode.el ends here
