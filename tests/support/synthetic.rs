//! Circuits of a given shape, with witnesses that satisfy them, made in parallel and from nothing: what a
//! machine needs that no circuit of that size can be brought to.
//!
//! A circuit is a row of blocks of about 2^16 constraints, alike but for their variables, as Filecoin's
//! circuits are. A block has free variables, bits and others, and variables that a constraint defines from
//! earlier ones, so that a witness is computed by solving the constraints in order.
#![allow(dead_code)]
use cuzk::{
    algebra::{Canonical, Fr},
    r1cs::{Circuit, CircuitBuilder, CircuitError, witness::VALUE_BYTES},
};
use rayon::prelude::*;

/// Counts that a circuit must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Constraints, with one for each public input.
    pub rows: u64,
    /// Public inputs with ONE.
    pub inputs: u64,
    /// Auxiliary variables.
    pub aux: u64,
    /// Auxiliary variables that A mentions.
    pub a_aux: u64,
    /// Auxiliary variables that B mentions; it mentions ONE too.
    pub b_aux: u64,
    /// Auxiliary variables whose values are 0 or 1.
    pub bits: u64,
    /// Entries of A.
    pub a_entries: u64,
    /// Distinct coefficients.
    pub coefficients: u64,
}

/// A partition of Filecoin's PoRep over 32 GiB sectors.
pub const POREP_32G: Shape = Shape {
    rows: 130_278_869,
    inputs: 328,
    aux: 130_169_893,
    a_aux: 129_753_292,
    b_aux: 33_112_281,
    bits: 128_087_175,
    a_entries: 309_000_000,
    coefficients: 2466,
};

/// Filecoin's WindowPoSt over 2349 sectors of 32 GiB.
pub const WINDOW_POST_32G: Shape = Shape {
    rows: 125_305_057,
    inputs: 25_840,
    aux: 126_902_376,
    a_aux: 96_179_805,
    b_aux: 91_925_766,
    bits: 1_269_024,
    a_entries: 862_000_000,
    coefficients: 985,
};

impl Shape {
    /// log2 of the domain's size.
    pub fn log_domain(&self) -> u32 {
        self.rows.next_power_of_two().ilog2()
    }

    /// The same proportions on a smaller domain.
    pub fn scaled(&self, log_domain: u32) -> Self {
        let scale = |count: u64| count >> self.log_domain().saturating_sub(log_domain);
        Self {
            rows: scale(self.rows),
            inputs: scale(self.inputs).max(2),
            aux: scale(self.aux),
            a_aux: scale(self.a_aux),
            b_aux: scale(self.b_aux),
            bits: scale(self.bits),
            a_entries: scale(self.a_entries),
            coefficients: self.coefficients,
        }
    }
}

/// Constraints of a block, about.
const BLOCK_ROWS: u64 = 1 << 16;
/// Blocks that are built at a time.
const BLOCKS_AT_ONCE: u64 = 256;

/// Counts of the kinds of variables and constraints, of a whole circuit or of one block.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Bits b with (1 − b)·b = 0.
    free_bits: u64,
    /// Bits r with 2·p·q = p + q − r.
    derived_bits: u64,
    /// Other values that no constraint defines,
    free: u64,
    /// and those that a linear combination, times another value or 1, defines.
    derived: u64,
    /// Constraints p·1 = p.
    filler: u64,
    /// Derived bits that A does not mention.
    untouched_bits: u64,
    /// Other values that A does not mention.
    untouched: u64,
    /// Other values that B mentions.
    in_b: u64,
    /// Entries of A in the constraints of derived values.
    entries: u64,
}

impl Counts {
    /// Of a circuit of that shape; None where its counts contradict each other.
    fn of(shape: &Shape) -> Option<Self> {
        let rows = shape.rows.checked_sub(shape.inputs)?;
        let free_bits = shape.bits.min(shape.b_aux);
        let others = shape.aux.checked_sub(shape.bits)?;
        let derived_bits = shape.bits - free_bits;
        let derived = others.min(rows.checked_sub(shape.bits)?);
        let filler = rows - shape.bits - derived;
        let untouched = shape.aux.checked_sub(shape.a_aux)?;
        let untouched_bits = (untouched * derived_bits).checked_div(derived_bits + others)?;
        let other_entries = shape.inputs + 2 * free_bits + derived_bits + filler;
        Some(Self {
            free_bits,
            derived_bits,
            free: others - derived,
            derived,
            filler,
            untouched_bits,
            untouched: untouched - untouched_bits,
            in_b: shape.b_aux - free_bits,
            entries: shape.a_entries.checked_sub(other_entries)?,
        })
    }

    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self {
            free_bits: f(self.free_bits),
            derived_bits: f(self.derived_bits),
            free: f(self.free),
            derived: f(self.derived),
            filler: f(self.filler),
            untouched_bits: f(self.untouched_bits),
            untouched: f(self.untouched),
            in_b: f(self.in_b),
            entries: f(self.entries),
        }
    }

    fn variables(&self) -> u64 {
        self.free_bits + self.derived_bits + self.free + self.derived
    }

    /// Whether a block of these counts can be made.
    fn fit(&self) -> bool {
        let others = self.free + self.derived;
        let lag = self.free.max(1);
        let pool = if self.free > 0 { self.free } else { self.free_bits };
        let bits = self.derived_bits == 0 || self.untouched_bits > 0 && self.free_bits > 1;
        bits && others >= self.untouched + self.free
            && self.untouched >= lag
            && self.derived >= lag
            && self.in_b <= others - lag
            && (self.derived..=self.derived * (pool - 1)).contains(&self.entries)
    }
}

/// A constraint, with the variable that it defines. Terms are (variable, coefficient).
struct Row<'a> {
    a: &'a [(u32, Fr)],
    b: &'a [(u32, Fr)],
    c: &'a [(u32, Fr)],
    defines: Option<u32>,
}

/// Whether the i-th of `all` is among `some` that are spread evenly.
fn spread(i: u64, some: u64, all: u64) -> bool {
    (i + 1) * some / all > i * some / all
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn value(&mut self) -> Fr {
        let mut wide = [0; 64];
        wide.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&self.next().to_le_bytes()));
        Fr::from_wide_le_bytes(&wide)
    }
}

/// A circuit of a shape.
pub struct Synthetic {
    shape: Shape,
    counts: Counts,
    blocks: u64,
    two: Fr,
    coefficients: Vec<Fr>,
}

impl Synthetic {
    /// None where no circuit of this kind has that shape.
    pub fn new(shape: Shape) -> Option<Self> {
        let counts = Counts::of(&shape)?;
        let mut random = Random(2);
        let synthetic = Self {
            shape,
            counts,
            blocks: (shape.rows / BLOCK_ROWS).max(1),
            two: Fr::from_u64(2),
            // The others are 1, −1 and, for derived bits, 2.
            coefficients: (2 + u64::from(counts.derived_bits > 0)..shape.coefficients)
                .map(|_| random.value())
                .collect(),
        };
        let fits = (0..synthetic.blocks).all(|block| synthetic.block(block).fit());
        (fits && !synthetic.coefficients.is_empty()).then_some(synthetic)
    }

    fn block(&self, block: u64) -> Counts {
        self.counts.map(|count| count * (block + 1) / self.blocks - count * block / self.blocks)
    }

    /// Index in z of a block's first variable.
    fn first_variable(&self, block: u64) -> u64 {
        self.shape.inputs + self.counts.map(|count| count * block / self.blocks).variables()
    }

    /// Visits the constraints of a block in order.
    fn rows<E>(&self, block: u64, mut visit: impl FnMut(Row<'_>) -> Result<(), E>) -> Result<(), E> {
        let counts = self.block(block);
        let Counts { free_bits, derived_bits, free, derived, .. } = counts;
        let mut random = Random(block << 32 | 1);
        // Free bits, other free values, derived bits, other derived values.
        let bit = self.first_variable(block);
        let (other, derived_bit) = (bit + free_bits, bit + free_bits + free);
        let defined = derived_bit + derived_bits;
        let (one, minus_one) = (Fr::ONE, -Fr::ONE);
        for i in 0..free_bits {
            let x = (bit + i) as u32;
            visit(Row { a: &[(0, one), (x, minus_one)], b: &[(x, one)], c: &[], defines: None })?;
        }
        for i in 0..derived_bits {
            let touched = i > 0 && spread(i - 1, derived_bits - counts.untouched_bits, derived_bits - 1);
            let p = if touched { derived_bit + i - 1 } else { bit + random.below(free_bits) };
            let mut q = bit + random.below(free_bits);
            if q == p {
                q = bit + (q - bit + 1) % free_bits;
            }
            let (p, q, r) = (p as u32, q as u32, (derived_bit + i) as u32);
            visit(Row {
                a: &[(p, self.two)],
                b: &[(q, one)],
                c: &[(p, one), (q, one), (r, minus_one)],
                defines: Some(r),
            })?;
        }
        // Values that are not bits, in order: the free ones, then the derived ones. Constraint i mentions
        // value i + free − lag, which is known by then.
        let lag = free.max(1);
        let candidates = free + derived - lag;
        let value = |i: u64| (if i < free { other + i } else { defined + i - free }) as u32;
        let (pool, first) = if free > 0 { (free, other) } else { (free_bits, bit) };
        let mut terms: Vec<(u32, Fr)> = Vec::new();
        let mut next_coefficient = self.coefficients.iter().cycle().copied();
        for i in 0..derived {
            let old = (i + free).checked_sub(lag);
            let touched = old.filter(|&old| {
                let among = derived - counts.untouched;
                old < free || spread(old - free, among, candidates - free)
            });
            let count = counts.entries * (i + 1) / derived - counts.entries * i / derived;
            let start = match touched {
                Some(old) if old < free => old,
                _ => random.below(pool),
            };
            terms.clear();
            for k in 0..count {
                let variable = match touched {
                    Some(old) if old >= free && k == 0 => value(old),
                    _ => (first + (start + k) % pool) as u32,
                };
                terms.push((variable, next_coefficient.next().unwrap_or(one)));
            }
            let factor = old.filter(|&old| spread(old, counts.in_b, candidates)).map_or(0, value);
            let result = value(free + i);
            visit(Row { a: &terms, b: &[(factor, one)], c: &[(result, one)], defines: Some(result) })?;
        }
        for _ in 0..counts.filler {
            let p = [((bit + random.below(free_bits.max(1))) as u32, one)];
            visit(Row { a: &p, b: &[(0, one)], c: &p, defines: None })?;
        }
        Ok(())
    }

    /// The circuit.
    pub fn circuit(&self) -> Result<Circuit, CircuitError> {
        let new = || CircuitBuilder::new(self.shape.inputs as usize, self.shape.aux as usize);
        let mut circuit = new();
        for first in (0..self.blocks).step_by(BLOCKS_AT_ONCE as usize) {
            let blocks = first..self.blocks.min(first + BLOCKS_AT_ONCE);
            let build = |block| {
                let mut builder = new();
                self.rows(block, |row| builder.constraint(row.a, row.b, row.c))?;
                Ok(builder)
            };
            let built: Vec<CircuitBuilder> = blocks.into_par_iter().map(build).collect::<Result<_, _>>()?;
            for builder in &built {
                circuit.append(builder)?;
            }
        }
        circuit.finish()
    }

    /// Bytes of a witness in the canonical encoding.
    pub fn witness_bytes(&self) -> usize {
        (self.shape.inputs + self.shape.aux) as usize * VALUE_BYTES
    }

    /// Writes the witness of a seed, in the canonical encoding.
    ///
    /// # Panics
    /// Where `out` does not have [`Self::witness_bytes`].
    pub fn write_witness(&self, seed: u64, out: &mut [u8]) {
        assert_eq!(out.len(), self.witness_bytes());
        let (mut values, _) = out.as_chunks_mut::<VALUE_BYTES>();
        for (i, input) in values.split_off_mut(..self.shape.inputs as usize).into_iter().flatten().enumerate()
        {
            let value = if i == 0 { Fr::ONE } else { Random(seed ^ (i as u64) << 48).value() };
            *input = value.to_canonical().to_le_bytes();
        }
        let mut blocks = Vec::new();
        for block in 0..self.blocks {
            let length = self.block(block).variables() as usize;
            blocks.extend(values.split_off_mut(..length).map(|values| (block, values)));
        }
        blocks.into_par_iter().for_each(|(block, out)| {
            for (value, out) in self.block_values(block, seed).into_iter().zip(out) {
                *out = value.to_canonical().to_le_bytes();
            }
        });
    }

    /// Values of a block's variables.
    fn block_values(&self, block: u64, seed: u64) -> Vec<Fr> {
        let (counts, first) = (self.block(block), self.first_variable(block));
        let mut random = Random(seed.wrapping_add(block << 32));
        let mut values = vec![Fr::ZERO; counts.variables() as usize];
        let (bits, others) = values.split_at_mut(counts.free_bits as usize);
        bits.iter_mut().for_each(|bit| *bit = Fr::from_u64(random.below(2)));
        others.iter_mut().take(counts.free as usize).for_each(|value| *value = random.value());
        let solved = self.rows(block, |row| {
            let sum = |terms: &[(u32, Fr)]| {
                terms.iter().fold(Fr::ZERO, |sum, &(i, coefficient)| match i {
                    0 => sum + coefficient,
                    _ => sum + coefficient * values[(u64::from(i) - first) as usize],
                })
            };
            if let Some(variable) = row.defines {
                // Its coefficient in C is 1 or −1, and its value is still 0.
                let rest = sum(row.a) * sum(row.b) - sum(row.c);
                let negative = row.c.iter().any(|term| *term == (variable, -Fr::ONE));
                values[(u64::from(variable) - first) as usize] = if negative { -rest } else { rest };
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = solved;
        values
    }
}

/// The values of a witness in the canonical encoding.
pub fn values(witness: &[u8]) -> Option<Vec<Canonical>> {
    witness.as_chunks::<VALUE_BYTES>().0.iter().map(Canonical::from_le_bytes).collect()
}
