" Settings of a .tgl buffer; in Neovim also the language server.
setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:// expandtab shiftwidth=4 softtabstop=4
if has("nvim-0.8")
lua << EOF
local tegula = vim.g.tegula_command or "tegula"
vim.lsp.start({ name = "tegula", cmd = { tegula, "lsp" }, root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(0)),
  init_options = { target = vim.g.tegula_target or "sm_90a" } })
-- Code lenses (vim.lsp.codelens.refresh, .run) start a command of (path, kernel, label of an example) in a terminal.
for _, name in ipairs({ "run", "check", "inspect", "bench", "report" }) do
  vim.lsp.commands["tegula." .. name] = function(command)
    local path, kernel, example = unpack(command.arguments)
    local words = { tegula, name, path, kernel }
    if example then vim.list_extend(words, { "--example", example }) end
    if name == "report" then vim.list_extend(words, { "-o", kernel .. ".html" }) end
    vim.cmd("new")
    vim.fn.termopen(words)
  end
end
EOF
endif
