//! The words of a condition: names, numbers, text in quotes and signs, each with its place.

/// One word.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// A name, also `in`, `true` and `null`.
    Name(String),
    /// A number, not yet signed.
    Number(f64),
    /// Text in quotes.
    Text(String),
    /// One of `== != <= >= && || < > ! ( ) [ ] , -` or another sign that no condition has.
    Sign(&'static str),
}

/// Signs, longer ones first; those a condition does not know are here too, so that errors can name them.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ",", "-", "+", "*", "/", "%", "?", ":", ".",
    "{", "}",
];

/// Splits a text into words with the place (in characters, from 1) where each begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = place(text, rest);
        let (token, after) = if first.is_ascii_digit() || (first == '.' && digit_at(rest, 1)) {
            number(rest).ok_or_else(|| format!("at character {at}: this is no finite number"))?
        } else if first.is_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            (Token::Name(name.to_owned()), after)
        } else if first == '"' || first == '\'' {
            quoted(rest, first)
                .ok_or_else(|| format!("at character {at}: text must end in the quote it began with, without `\\`"))?
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign =
                sign.ok_or_else(|| format!("at character {at}: `{first}` has no meaning here; {}", hint(first)))?;
            (Token::Sign(sign), rest.get(sign.len()..).unwrap_or_default())
        };
        tokens.push((at, token));
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// The place of `rest`, a tail of `text`, in characters from 1.
fn place(text: &str, rest: &str) -> usize {
    1 + text
        .len()
        .checked_sub(rest.len())
        .and_then(|bytes| text.get(..bytes))
        .map_or(0, |head| head.chars().count())
}

fn digit_at(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
}

fn number(text: &str) -> Option<(Token, &str)> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (digits, after) = hex.split_at(end);
        // Every number of a condition is a float.
        return Some((
            Token::Number(u64::from_str_radix(digits, 16).ok()? as f64),
            after.strip_prefix('u').unwrap_or(after),
        ));
    }
    let digits_from = |at: usize| {
        text.get(at..)
            .map_or(0, |tail| tail.bytes().take_while(u8::is_ascii_digit).count())
    };
    let mut end = digits_from(0);
    let whole = !(text.get(end..)?.starts_with('.') && digit_at(text, end + 1));
    if !whole {
        end += 1 + digits_from(end + 1);
    }
    if text.get(end..)?.starts_with(['e', 'E']) {
        let signed = usize::from(text.get(end + 1..)?.starts_with(['+', '-']));
        let digits = digits_from(end + 1 + signed);
        end += if digits > 0 { 1 + signed + digits } else { 0 };
    }
    let (digits, after) = text.split_at_checked(end)?;
    let value: f64 = digits.parse().ok()?;
    let after = if whole {
        after.strip_prefix(['u', 'U']).unwrap_or(after)
    } else {
        after
    };
    let ends = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (value.is_finite() && ends).then_some((Token::Number(value), after))
}

/// Reads text in quotes; no band needs an escape, so none is taken.
fn quoted(text: &str, quote: char) -> Option<(Token, &str)> {
    let (inside, after) = text.strip_prefix(quote)?.split_once(quote)?;
    (!inside.contains(['\\', '\n', '"'])).then(|| (Token::Text(inside.to_owned()), after))
}

fn hint(sign: char) -> &'static str {
    match sign {
        '=' => "equality is written `==`",
        '&' => "`and` is written `&&`",
        '|' => "`or` is written `||`",
        _ => "conditions are comparisons joined by `&&`, `||` and `!`",
    }
}
