//! Methods of dictionaries and namespaces.

use super::call::{Call, no_object};
use crate::eval::{Fault, Flow, Interpreter, Outcome};
use crate::ops;
use crate::value::{DictionaryId, Rare, Value};

fn this(run: &Interpreter<'_>, call: &Call<'_>) -> Result<DictionaryId, Flow> {
    match call.this {
        Value::Dictionary(id) | Value::Namespace(id) => Ok(id),
        other => Err(no_object(run, call, other)),
    }
}

/// The dictionary, if it can be written to; what is said otherwise names where it was made or
/// frozen.
fn writable(run: &mut Interpreter<'_>, call: &Call<'_>) -> Result<DictionaryId, Flow> {
    let id = this(run, call)?;
    let frozen_by_call = run.heap.dictionary(id).rare.as_ref().and_then(|rare| rare.frozen);
    if let Some(place) = frozen_by_call {
        let fault = Fault::at(call.place, "Dictionary must not be modified.");
        return Err(fault.note(place, "it was frozen here").into());
    }
    let frozen = run.heap.dictionary_mut(id).err();
    match frozen {
        Some(frozen) => Err(run.frozen("dictionary", frozen, call.place)),
        None => Ok(id),
    }
}

pub fn clear(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = writable(run, call)?;
    if let Ok(dictionary) = run.heap.dictionary_mut(id) {
        dictionary.items.clear();
    }
    Ok(Value::Empty)
}

pub fn contains(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let key = ops::to_key(&mut run.heap, run.types, call.argument(0));
    Ok(Value::Boolean(run.heap.dictionary(id).items.get(key).is_some()))
}

pub fn freeze(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    // What is frozen already stays so.
    if let Ok(dictionary) = run.heap.dictionary_mut(id) {
        dictionary.rare.get_or_insert_with(Box::<Rare>::default).frozen = Some(call.place);
    }
    Ok(Value::Empty)
}

pub fn get(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let key = ops::to_key(&mut run.heap, run.types, call.argument(0));
    Ok(run.heap.dictionary(id).items.get(key).unwrap_or(Value::Empty))
}

/// A namespace has what is asked for.
pub fn get_of_namespace(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let key = ops::to_key(&mut run.heap, run.types, call.argument(0));
    let found = run.heap.dictionary(id).items.get(key);
    found.ok_or_else(|| {
        let key = run.heap.text(key);
        call.fail(format!("Namespace does not contain field '{key}'"))
    })
}

pub fn keys(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let sorted = run.heap.sorted(this(run, call)?);
    let keys = sorted.into_iter().map(|(key, _)| Value::String(key)).collect();
    Ok(run.heap.array_of(keys, call.place))
}

pub fn values(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let sorted = run.heap.sorted(this(run, call)?);
    let values = sorted.into_iter().map(|(_, value)| value).collect();
    Ok(run.heap.array_of(values, call.place))
}

pub fn len(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    Ok(Value::Number(run.heap.dictionary(id).items.len() as f64))
}

pub fn remove(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = writable(run, call)?;
    let key = ops::to_key(&mut run.heap, run.types, call.argument(0));
    if let Ok(dictionary) = run.heap.dictionary_mut(id) {
        let constant = |rare: &Rare| rare.constants.binary_search(&key).is_ok();
        if dictionary.rare.as_deref().is_some_and(constant) {
            return Err(call.fail("Constants must not be removed."));
        }
        dictionary.items.remove(key);
    }
    Ok(Value::Empty)
}

pub fn set(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    run.set_field(call.this, call.argument(0), call.argument(1), call.place)?;
    Ok(Value::Empty)
}

pub fn shallow_clone(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let items = run.heap.dictionary(this(run, call)?).items.clone();
    Ok(run.heap.dictionary_of(items, call.place))
}
