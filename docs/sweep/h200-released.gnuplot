set datafile separator ','
set datafile commentschars '#'
set terminal svg size 720,420
set grid
set key bottom left
off(x) = strcol(1) eq 'decode' && strcol(2) eq 'off' ? x : NaN
on(x) = strcol(1) eq 'decode' && strcol(2) eq 'on' ? x : NaN
prefill(x) = strcol(1) eq 'prefill' ? x : NaN
set output 'h200-released-decode.svg'
set title 'h200-released: decode at fixed batches'
set xlabel 'tokens/s of a user'
set ylabel 'tokens/s of a device'
plot 'h200-released.csv' using (off($7)):6 with linespoints pt 7 ps 0.6 title 'without drafts', \
     '' using (on($7)):6 with linespoints pt 5 ps 0.6 title 'with drafts'
set output 'h200-released-step.svg'
set title 'h200-released: time of a decode step'
set xlabel 'sequences'
set ylabel 'ms'
set logscale xy
plot 'h200-released.csv' using (off($3)):5 with linespoints pt 7 ps 0.6 title 'without drafts', \
     '' using (on($3)):5 with linespoints pt 5 ps 0.6 title 'with drafts'
unset logscale
set output 'h200-released-prefill.svg'
set title 'h200-released: prefill'
set xlabel 'tokens of the prompt'
set ylabel 'tokens/s of a device'
set yrange [0:*]
plot 'h200-released.csv' using (prefill($4)):6 with linespoints pt 7 ps 0.6 notitle
set output 'h200-released-share.svg'
set title 'h200-released: share of the limit of this machine'
set xlabel 'rows of a step'
set ylabel 'share'
set logscale x
plot 'h200-released.csv' using (off($3)):8 with linespoints pt 7 ps 0.6 title 'decode', \
     '' using (prefill($4)):8 with linespoints pt 5 ps 0.6 title 'prefill'
