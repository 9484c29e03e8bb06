//! `Math`.

use super::call::{Call, number};
use crate::ast::Binary;
use crate::eval::{Flow, Interpreter, Outcome};
use crate::ops;
use crate::value::Value;

macro_rules! of_one {
    ($( $name:ident = $function:expr; )*) => { $(
        pub fn $name(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
            let function: fn(f64) -> f64 = $function;
            number(run, call, call.argument(0)).map(|value| Value::Number(function(value)))
        }
    )* };
}

of_one! {
    abs = f64::abs;
    acos = f64::acos;
    asin = f64::asin;
    atan = f64::atan;
    ceil = f64::ceil;
    cos = f64::cos;
    exp = f64::exp;
    floor = f64::floor;
    log = f64::ln;
    round = f64::round;
    sign = |value| if value == 0.0 { 0.0 } else { value.signum() };
    sin = f64::sin;
    sqrt = f64::sqrt;
    tan = f64::tan;
}

fn two(run: &Interpreter<'_>, call: &Call<'_>) -> Result<(f64, f64), Flow> {
    Ok((number(run, call, call.argument(0))?, number(run, call, call.argument(1))?))
}

pub fn atan2(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    two(run, call).map(|(y, x)| Value::Number(y.atan2(x)))
}

pub fn pow(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    two(run, call).map(|(base, power)| Value::Number(base.powf(power)))
}

pub fn is_nan(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    number(run, call, call.argument(0)).map(|value| Value::Boolean(value.is_nan()))
}

pub fn is_infinite(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    number(run, call, call.argument(0)).map(|value| Value::Boolean(value.is_infinite()))
}

/// Between 0 and 1. The same numbers in every run: what is made must not depend on luck.
pub fn random(run: &mut Interpreter<'_>, _call: &Call<'_>) -> Outcome {
    Ok(Value::Number(super::system::next_random(run) / super::system::RANDOM_MAX))
}

pub fn max(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    extreme(run, call, Binary::Greater, f64::NEG_INFINITY)
}

pub fn min(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    extreme(run, call, Binary::Less, f64::INFINITY)
}

/// Any values that can be compared.
fn extreme(run: &Interpreter<'_>, call: &Call<'_>, operator: Binary, none: f64) -> Outcome {
    let Some((first, rest)) = call.arguments.split_first() else {
        return Ok(Value::Number(none));
    };
    let mut best = *first;
    for value in rest {
        let better = ops::compare(&run.heap, run.types, operator, *value, best);
        if better.map_err(|message| call.fail(message))? {
            best = *value;
        }
    }
    Ok(best)
}
