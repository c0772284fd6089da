//! The part of JSON Schema that this program needs: types, properties, items, maps.
//!
//! Source: JSON Schema 2020-12, <https://json-schema.org/draft/2020-12>.

use serde_json::{Map, Value, json};

/// Objects whose keys are names, not words of the contract.
const MAPS: [&str; 4] = ["lost", "causes", "exclusions", "records_dropped_by"];

/// Returns the faults of a value, one per line. The target of a `$ref` is a sample of its own.
pub(crate) fn faults(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if schema["$ref"].is_string() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let types = types(schema);
    let kind = kind(value);
    let fits = |known: &&str| **known == *kind || (**known == *"number" && *kind == *"integer");
    if !types.iter().any(fits) {
        return vec![format!("{place}: {kind}, not {}", types.join(" or "))];
    }
    match value {
        Value::Object(object) => {
            let known = schema["properties"].as_object();
            for (key, value) in object {
                let at = format!("{place}/{key}");
                match known.and_then(|known| known.get(key)) {
                    Some(inner) => found.extend(faults(inner, value, &at)),
                    None if schema["additionalProperties"].is_object() => {
                        found.extend(faults(&schema["additionalProperties"], value, &at));
                    }
                    None => found.push(format!("{at}: is not in the schema")),
                }
            }
            let required = schema["required"].as_array().into_iter().flatten();
            let missing =
                required.filter_map(Value::as_str).filter(|key| !object.contains_key(*key));
            found.extend(missing.map(|key| format!("{place}/{key}: is missing")));
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                found.extend(faults(&schema["items"], value, &format!("{place}/{index}")));
            }
        }
        _ => {}
    }
    found
}

/// Extends a schema to accept a value, too; `name` is the value's key.
pub(crate) fn learn(schema: &mut Value, value: &Value, name: &str) {
    if schema["$ref"].is_string() {
        return;
    }
    let is_new = schema.is_null();
    if is_new {
        *schema = json!({ "type": [] });
    }
    let mut all: Vec<String> = types(schema).iter().map(ToString::to_string).collect();
    all.push(kind(value).to_owned());
    if all.iter().any(|known| known == "number") {
        all.retain(|known| known != "integer");
    }
    all.sort_unstable();
    all.dedup();
    schema["type"] = if all.len() == 1 { json!(all[0]) } else { json!(all) };
    match value {
        Value::Object(object) if MAPS.contains(&name) => {
            schema["additionalProperties"] = schema["additionalProperties"].take();
            for value in object.values() {
                learn(&mut schema["additionalProperties"], value, "");
            }
            if schema["additionalProperties"].is_null() {
                schema["additionalProperties"] = json!({ "type": "integer" });
            }
        }
        Value::Object(object) => learn_object(schema, object),
        Value::Array(values) => {
            values.iter().for_each(|value| learn(&mut schema["items"], value, name));
        }
        _ => {}
    }
}

fn learn_object(schema: &mut Value, object: &Map<String, Value>) {
    // Keys that every object so far has.
    let is_first = schema.get("properties").is_none();
    let required: Vec<Value> = match is_first {
        true => object.keys().map(|key| json!(key)).collect(),
        false => {
            let known = schema["required"].as_array().cloned().unwrap_or_default();
            known.into_iter().filter(|key| object.contains_key(key.as_str().unwrap())).collect()
        }
    };
    schema["required"] = json!(required);
    for (key, value) in object {
        learn(&mut schema["properties"][key], value, key);
    }
    if is_first && object.is_empty() {
        schema["properties"] = json!({});
    }
    schema["additionalProperties"] = json!(false);
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
