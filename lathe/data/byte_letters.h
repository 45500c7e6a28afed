#pragma once
// tokenizer.json writes bytes as letters: each byte has a printable character that stands for it
// (GPT-2's bytes_to_unicode). Printable Latin-1 stands for itself, the rest is moved to U+0100 on.

#include <string>
#include <string_view>

namespace lathe::data {

/// Bytes to letters, in UTF-8.
std::string to_letters(std::string_view bytes);

/// Letters back to bytes; false when `letters` holds anything that stands for no byte.
bool from_letters(std::string_view letters, std::string& bytes);

}  // namespace lathe::data
