# A folder of lathe/ is one static library; its lower neighbours come after LINKS.
function(lathe_folder name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lathe/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    add_library(lathe_${name} INTERFACE)
    target_link_libraries(lathe_${name} INTERFACE lathe_options ${ARG_LINKS})
    return()
  endif()
  add_library(lathe_${name} STATIC ${sources})
  target_link_libraries(lathe_${name} PUBLIC lathe_options ${ARG_LINKS})
endfunction()

# The tests of a folder are one binary, found by name: tests/<folder>/*_test.cpp.
function(lathe_tests name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE lathe_options lathe_test_support ${ARG_LINKS}
    GTest::gtest GTest::gtest_main)
  # What is tested is optimised as everyone runs it; the tests themselves compile a third faster so.
  target_compile_options(${name}_test PRIVATE -O1)
  gtest_discover_tests(${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_TIMEOUT 60
    TEST_PREFIX ${name}. PROPERTIES TIMEOUT 600)
endfunction()
