// What no file of one instruction set may do: emit an inline function with external linkage. Two
// files that both do would share one copy, compiled for either of them.

namespace lathe::structure {

[[gnu::noinline]] inline int planted_in_a_header(int x) { return x + 1; }

int calls_it(int x);
int calls_it(int x) { return planted_in_a_header(x); }

}  // namespace lathe::structure
