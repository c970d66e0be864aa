au BufRead,BufNewFile *.tgl setfiletype tegula
