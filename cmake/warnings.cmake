# One target that every target of ours links: warnings, contraction, includes.
add_library(lathe_options INTERFACE)
target_compile_options(lathe_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # a*b+c stays two roundings unless fma is written: the same bits in every file
  -ffp-contract=off)
target_include_directories(lathe_options INTERFACE ${CMAKE_SOURCE_DIR})
target_link_libraries(lathe_options INTERFACE Threads::Threads fmt::fmt)
set(LATHE_SANITIZE "" CACHE STRING "sanitizers, such as address,undefined or thread")
if(LATHE_SANITIZE)
  target_compile_options(lathe_options INTERFACE -fsanitize=${LATHE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(lathe_options INTERFACE -fsanitize=${LATHE_SANITIZE})
endif()
