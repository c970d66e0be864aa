" Settings of a .tgl buffer; in Neovim also the language server.
setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:// expandtab shiftwidth=4 softtabstop=4
if has("nvim-0.8")
  lua vim.lsp.start({ name = "tegula", cmd = { vim.g.tegula_command or "tegula", "lsp" },
        \ root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(0)),
        \ init_options = { target = vim.g.tegula_target or "sm_90a" } })
endif
