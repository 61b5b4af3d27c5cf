# The sources with a bug of tessera/support/planted.h, by its number.
set(TESSERA_PLANTED
  frontend/graph/passes/simplify_movement.cc    # 1 permutations composed in the wrong order; 2 a pad off by one
  frontend/onnx/integer_products.cc             # 3 the zero point of the left operand dropped
  frontend/graph/passes/layout_choice.cc        # 4 an operand of lower rank broadcast in the old layout
  frontend/graph/passes/fold_scales.cc          # 5 the sign of a folded bias
  backend/exec/memory_plan.cc                  # 6 readers of an alias do not keep its memory
  frontend/graph/passes/simplify_arithmetic.cc  # 7 a cast that loses bits taken for one that does not
  scheduling/lower/partition_loops.cc             # 8 the tail of a loop begins one late
  scheduling/lower/build_loop_nest.cc             # 9 a maximum begins at zero
  frontend/graph/passes/merge_contractions.cc)  # 10 weights concatenated in the wrong order
foreach(source IN LISTS TESSERA_PLANTED)
  string(REGEX REPLACE "^[a-z]+/([a-z]+)/.*" "\\1" folder ${source})
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/tessera/${source} TARGET_DIRECTORY tessera_${folder}
    APPEND PROPERTY COMPILE_DEFINITIONS TESSERA_PLANTED_BUGS)
endforeach()
