# Back ends that are instruction sets: every file of a folder takes that folder's flags.
foreach(isa ref avx2 avx512 avx512bf16 amx)
  file(GLOB ${isa}_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lathe/kernels/${isa}/*.cpp)
endforeach()
target_sources(lathe_kernels PRIVATE ${ref_files})
lathe_isa_sources(lathe_kernels FLAGS -mavx2 -mfma SOURCES ${avx2_files})
lathe_isa_sources(lathe_kernels FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
  -mprefer-vector-width=512 SOURCES ${avx512_files})
lathe_isa_sources(lathe_kernels FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
  -mprefer-vector-width=512 SOURCES ${avx512bf16_files})
lathe_isa_sources(lathe_kernels FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
  -mamx-tile -mamx-bf16 -mprefer-vector-width=512 SOURCES ${amx_files})
