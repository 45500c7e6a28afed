#pragma once
// The rules that the shape of the source obeys, as functions from a file to what it breaks. Each
// returns one line per violation: "path:line: what is wrong".

#include <string>
#include <vector>

namespace lathe::structure {

struct SourceFile {
  std::string path;  // from the root of the project: "lathe/kernels/norm.h"
  std::string text;
};

using Violations = std::vector<std::string>;

/// A folder of lathe/ includes only folders below it (docs/architecture.md has the order).
Violations layer_order(const SourceFile& f);
/// Headers that are slow to parse stay out of headers, since every file that includes those pays.
Violations heavy_headers(const SourceFile& f);
/// Files of one instruction set include neither containers nor strings: their templates would be
/// weak symbols compiled for that instruction set, which the linker may choose for everybody.
Violations isa_includes(const SourceFile& f);
/// No file is longer than 400 lines.
Violations file_length(const SourceFile& f);
/// A header starts with #pragma once.
Violations header_guard(const SourceFile& f);
/// No marks of unfinished work, and nothing that reads the environment.
Violations refused_words(const SourceFile& f);

/// Every .h and .cpp below lathe/, tests/ and bench/ of the project at `root`.
std::vector<SourceFile> sources(const std::string& root);

}  // namespace lathe::structure
