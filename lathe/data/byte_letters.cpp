#include "lathe/data/byte_letters.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::data {

namespace {

struct Letters {
  std::array<u16, 256> of_byte{};
  std::array<i32, 512> of_letter{};  // -1: stands for no byte
};

constexpr Letters kLetters = [] {
  Letters l;
  l.of_letter.fill(-1);
  u16 next = 0x100;
  for (u16 b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
    l.of_byte[b] = printable ? b : next++;
    l.of_letter[l.of_byte[b]] = b;
  }
  return l;
}();

}  // namespace

std::string to_letters(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const u16 letter = kLetters.of_byte[static_cast<u8>(c)];
    if (letter < 0x80) {
      out += static_cast<char>(letter);
    } else {
      out += static_cast<char>(0xC0 | letter >> 6);
      out += static_cast<char>(0x80 | (letter & 0x3F));
    }
  }
  return out;
}

bool from_letters(std::string_view letters, std::string& bytes) {
  bytes.clear();
  for (std::size_t i = 0; i < letters.size(); ++i) {
    u32 letter = static_cast<u8>(letters[i]);
    if (letter >= 0x80) {
      if (letter >= 0xE0 || ++i == letters.size()) return false;
      letter = (letter & 0x1F) << 6 | (static_cast<u8>(letters[i]) & 0x3F);
    }
    if (letter >= kLetters.of_letter.size() || kLetters.of_letter[letter] < 0) return false;
    bytes += static_cast<char>(kLetters.of_letter[letter]);
  }
  return true;
}

}  // namespace lathe::data
