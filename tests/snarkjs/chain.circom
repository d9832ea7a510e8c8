pragma circom 2.1.0;

// x → (x + i)³, n times, from a private start to a public end; a public claim about the start.
template Chain(n) {
    signal input start;
    signal input claim;
    signal output end;
    signal x[n + 1];
    signal sq[n];
    x[0] <== start;
    for (var i = 0; i < n; i++) {
        sq[i] <== (x[i] + i) * (x[i] + i);
        x[i + 1] <== sq[i] * (x[i] + i);
    }
    end <== x[n];
    claim === start * start + 7;
}
component main {public [claim]} = Chain(20);
