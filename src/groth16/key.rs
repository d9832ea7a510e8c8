//! Proving and verifying keys, however they were stored.
//!
//! bellman's files and snarkjs' become the same key; they differ in the basis of h, in the root of
//! unity behind the domain, and in whether the a and b queries keep points at infinity.
use crate::{
    algebra::{Curve, Domain, G1, G1Affine, G2, G2Affine, PointStore, TwoAdicRoot},
    r1cs::Circuit,
};
use std::sync::Arc;

/// What a verifier needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// α in G1.
    pub alpha_g1: G1Affine,
    /// β in G1: bellman's form has it, snarkjs' does not, no verifier needs it.
    pub beta_g1: Option<G1Affine>,
    /// β in G2.
    pub beta_g2: G2Affine,
    /// γ in G2.
    pub gamma_g2: G2Affine,
    /// δ in G1: as `beta_g1`.
    pub delta_g1: Option<G1Affine>,
    /// δ in G2.
    pub delta_g2: G2Affine,
    /// One point per input, ONE included.
    pub ic: Vec<G1Affine>,
}

/// In which basis the key's H points expect the quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HBasis {
    /// bellman: τⁱ·t(τ)/δ, m − 1 points; scalars are h's coefficients.
    Monomial,
    /// snarkjs: m points; scalars are A·B − C on the odd coset.
    CosetLagrange,
}

/// One of the a, b₁, b₂ queries: points and the variables that they belong to.
pub struct Query<C: Curve> {
    points: PointStore<C>,
    variables: Option<Arc<[u32]>>,
}

impl<C: Curve> Query<C> {
    /// Point i belongs to variable i; infinities are kept.
    pub fn full(points: PointStore<C>) -> Self {
        Self { points, variables: None }
    }

    /// Point i belongs to variable `variables[i]`; variables ascend. `query` is for messages.
    pub fn filtered(
        query: &'static str,
        points: PointStore<C>,
        variables: Arc<[u32]>,
    ) -> Result<Self, KeyError> {
        count(query, points.len(), variables.len())?;
        if let Some(position) = variables.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(KeyError::Order { query, position: position as u64 + 1 });
        }
        Ok(Self { points, variables: Some(variables) })
    }

    /// The points.
    pub fn points(&self) -> &PointStore<C> {
        &self.points
    }

    /// The variable of each point, ascending; None: point i belongs to variable i.
    pub fn variables(&self) -> Option<&Arc<[u32]>> {
        self.variables.as_ref()
    }

    /// That every point's variable exists and that an unfiltered query covers all variables.
    fn check_shape(&self, query: &'static str, num_variables: usize) -> Result<(), KeyError> {
        match &self.variables {
            None => count(query, self.points.len(), num_variables),
            // They ascend: the last is the largest.
            Some(variables) => match variables.last() {
                Some(&v) if v as usize >= num_variables => {
                    Err(KeyError::Variable { query, found: v.into(), limit: num_variables as u64 })
                }
                _ => Ok(()),
            },
        }
    }
}

/// What a prover needs.
pub struct ProvingKey {
    /// The verifying key.
    pub vk: VerifyingKey,
    /// β in G1.
    pub beta_g1: G1Affine,
    /// δ in G1.
    pub delta_g1: G1Affine,
    /// The quotient's points.
    pub h: PointStore<G1>,
    /// The basis that `h` is in.
    pub h_basis: HBasis,
    /// The root of unity behind the domain.
    pub root: TwoAdicRoot,
    /// The points of the auxiliary variables.
    pub l: PointStore<G1>,
    /// uᵢ(τ) in G1.
    pub a: Query<G1>,
    /// vᵢ(τ) in G1.
    pub b_g1: Query<G1>,
    /// vᵢ(τ) in G2.
    pub b_g2: Query<G2>,
    /// BLAKE3 of the key file; of seed and circuit for a key that the setup made in memory.
    pub id: [u8; 32],
}

/// A key that does not fit, or a setup that cannot make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A query has more or fewer points than the circuit has use for.
    #[error("the key has {found} {query} points, the circuit wants {wanted}")]
    Count {
        /// The query's name in bellman's format.
        query: &'static str,
        /// Points in the key.
        found: u64,
        /// Points that the circuit wants.
        wanted: u64,
    },
    /// A query's variables are not ascending.
    #[error("the variable of {query} point {position} is not above its predecessor")]
    Order {
        /// The query's name in bellman's format.
        query: &'static str,
        /// The point.
        position: u64,
    },
    /// A query has a point for a variable that the circuit does not have.
    #[error("the key has an {query} point for variable {found}, the circuit wants one below {limit}")]
    Variable {
        /// The query's name in bellman's format.
        query: &'static str,
        /// The variable.
        found: u64,
        /// The circuit's number of variables.
        limit: u64,
    },
    /// A query's points are of other variables than the circuit's matrices use.
    #[error("{query} point {position} belongs to variable {found}, the circuit wants {wanted}")]
    Density {
        /// The query's name in bellman's format.
        query: &'static str,
        /// The point.
        position: u64,
        /// Its variable in the key.
        found: u32,
        /// Its variable in the circuit.
        wanted: u32,
    },
    /// No domain is large enough.
    #[error("the circuit has {found} rows, wanted at most 2^31")]
    Rows {
        /// The circuit's rows, input rows included.
        found: u64,
    },
    /// The setup refuses a circuit with a variable that no constraint mentions.
    #[error("auxiliary variable {index} occurs in no constraint")]
    Unconstrained {
        /// The variable's index among the auxiliary ones.
        index: u64,
    },
    /// The setup needs matrix C, and the circuit came from a file that stores none.
    #[error("the circuit has no C matrix")]
    NoC,
    /// The drawn trapdoor makes a point of the key infinite: another seed will do.
    #[error("{query} point {index} is at infinity under this seed")]
    Infinity {
        /// The query's name in bellman's format.
        query: &'static str,
        /// The point.
        index: u64,
    },
}

fn count(query: &'static str, found: usize, wanted: usize) -> Result<(), KeyError> {
    let (found, wanted) = (found as u64, wanted as u64);
    if found == wanted { Ok(()) } else { Err(KeyError::Count { query, found, wanted }) }
}

impl ProvingKey {
    /// The domain of the circuit's rows under the key's root of unity.
    pub fn domain(&self, circuit: &Circuit) -> Result<Domain, KeyError> {
        let rows = circuit.num_rows() as u64;
        Domain::for_rows(rows, self.root).ok_or(KeyError::Rows { found: rows })
    }

    /// What proving needs for its indices to be in range: lengths, without a pass over the matrices.
    pub fn check_shape(&self, circuit: &Circuit) -> Result<(), KeyError> {
        let m = self.domain(circuit)?.size();
        let h = match self.h_basis {
            HBasis::Monomial => m - 1,
            HBasis::CosetLagrange => m,
        };
        count("ic", self.vk.ic.len(), circuit.num_inputs())?;
        count("h", self.h.len(), h)?;
        count("l", self.l.len(), circuit.num_aux())?;
        self.a.check_shape("a", circuit.num_variables())?;
        self.b_g1.check_shape("b_g1", circuit.num_variables())?;
        self.b_g2.check_shape("b_g2", circuit.num_variables())
    }

    /// Every count against the circuit, and the variables of filtered queries against its matrices.
    pub fn check_circuit(&self, circuit: &Circuit) -> Result<(), KeyError> {
        self.check_shape(circuit)?;
        check_density("a", &self.a, &a_variables(circuit))?;
        let b = b_variables(circuit);
        check_density("b_g1", &self.b_g1, &b)?;
        check_density("b_g2", &self.b_g2, &b)
    }
}

/// The variables of bellman's a query: all inputs (each has its input row), then the auxiliary
/// variables that A mentions.
pub fn a_variables(circuit: &Circuit) -> Arc<[u32]> {
    circuit.a_density().indices().into()
}

/// The variables of bellman's b queries: those that B mentions.
pub fn b_variables(circuit: &Circuit) -> Arc<[u32]> {
    circuit.b_density().indices().into()
}

fn check_density<C: Curve>(query: &'static str, key: &Query<C>, wanted: &[u32]) -> Result<(), KeyError> {
    let Some(found) = key.variables() else { return Ok(()) };
    count(query, found.len(), wanted.len())?;
    match found.iter().zip(wanted).position(|(f, w)| f != w) {
        None => Ok(()),
        Some(i) => Err(KeyError::Density { query, position: i as u64, found: found[i], wanted: wanted[i] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{algebra::Fr, groth16::setup::insecure_setup, r1cs::CircuitBuilder};

    /// Three rows of its own, five with the inputs': the domain has eight.
    fn circuit() -> Circuit {
        let mut builder = CircuitBuilder::new(2, 3);
        for i in 2..5 {
            builder.constraint(&[(i, Fr::ONE)], &[(i.max(3), Fr::ONE)], &[(1, Fr::ONE)]).unwrap();
        }
        builder.finish().unwrap()
    }

    fn key() -> ProvingKey {
        insecure_setup(&circuit(), [0; 32]).unwrap()
    }

    fn points<C: Curve>(len: usize) -> PointStore<C> {
        PointStore::Owned(vec![C::generator(); len])
    }

    #[test]
    fn every_count_is_compared() {
        let circuit = circuit();
        key().check_circuit(&circuit).unwrap();
        type Change = fn(&mut ProvingKey);
        let changes: [(Change, KeyError); 6] = [
            (|k| k.vk.ic.truncate(1), KeyError::Count { query: "ic", found: 1, wanted: 2 }),
            (|k| k.h = points::<G1>(8), KeyError::Count { query: "h", found: 8, wanted: 7 }),
            (|k| k.h_basis = HBasis::CosetLagrange, KeyError::Count { query: "h", found: 7, wanted: 8 }),
            (|k| k.l = points::<G1>(2), KeyError::Count { query: "l", found: 2, wanted: 3 }),
            (|k| k.a = Query::full(points::<G1>(4)), KeyError::Count { query: "a", found: 4, wanted: 5 }),
            (
                |k| k.b_g2 = Query::full(points::<G2>(6)),
                KeyError::Count { query: "b_g2", found: 6, wanted: 5 },
            ),
        ];
        for (change, wanted) in changes {
            let mut key = key();
            change(&mut key);
            assert_eq!(key.check_shape(&circuit), Err(wanted));
        }
    }

    #[test]
    fn variables_of_filtered_queries() {
        let circuit = circuit();
        assert_eq!(
            (&a_variables(&circuit)[..], &b_variables(&circuit)[..]),
            (&[0, 1, 2, 3, 4][..], &[3, 4][..])
        );
        let filtered =
            |variables: &[u32]| Query::<G1>::filtered("b_g1", points(variables.len()), variables.into());
        assert_eq!(filtered(&[3, 3]).err(), Some(KeyError::Order { query: "b_g1", position: 1 }));
        assert_eq!(filtered(&[0, 4, 3]).err(), Some(KeyError::Order { query: "b_g1", position: 2 }));
        let short = Query::<G1>::filtered("b_g1", points(1), [3, 4].into()).err();
        assert_eq!(short, Some(KeyError::Count { query: "b_g1", found: 1, wanted: 2 }));
        for (variables, wanted) in [
            (&[3, 5][..], KeyError::Variable { query: "b_g1", found: 5, limit: 5 }),
            (&[4], KeyError::Count { query: "b_g1", found: 1, wanted: 2 }),
            (&[2, 4], KeyError::Density { query: "b_g1", position: 0, found: 2, wanted: 3 }),
        ] {
            let mut key = key();
            key.b_g1 = filtered(variables).unwrap();
            assert_eq!(key.check_circuit(&circuit), Err(wanted));
        }
        // A query that keeps every variable is of any circuit with as many.
        let mut key = key();
        key.b_g1 = Query::full(points::<G1>(5));
        key.check_circuit(&circuit).unwrap();
    }
}
