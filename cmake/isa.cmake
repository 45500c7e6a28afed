# Files of one instruction set: their own flags, no exceptions, and no symbol that a linker could
# merge with another file's copy (tools/isa_symbols.sh checks that).
function(lathe_isa_sources target)
  cmake_parse_arguments(ARG "" "" "FLAGS;SOURCES" ${ARGN})
  target_sources(${target} PRIVATE ${ARG_SOURCES})
  # GCC 12's own AVX-512 headers raise both kinds of -Wuninitialized
  set_source_files_properties(${ARG_SOURCES} PROPERTIES COMPILE_OPTIONS
    "${ARG_FLAGS};-fno-exceptions;-Wno-uninitialized;-Wno-maybe-uninitialized;-Wno-ignored-attributes")
endfunction()
