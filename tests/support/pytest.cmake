# baton_pytest(FILE <file.py> [LABELS ...] [TIMEOUT s] [SERIAL] [DEPENDS target...])
# One pytest file is one ctest entry, run with the interpreter that tests/run installs into
# build/venv. A file in which every test was skipped counts as skipped; reasons are printed (-rs) and
# collected by tests/support/run_ctest.py. SERIAL is for tests that measure or fill the machine.
set(BATON_TEST_PYTHON
    ${PROJECT_SOURCE_DIR}/build/venv/bin/python
    CACHE FILEPATH "Interpreter with tests/integration/requirements.txt installed")
function(baton_pytest)
  cmake_parse_arguments(A "SERIAL" "FILE;TIMEOUT" "LABELS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(BATON_SANITIZER)
    math(EXPR A_TIMEOUT "5 * ${A_TIMEOUT}")
  endif()
  cmake_path(GET A_FILE STEM stem)
  set(name "pytest.${stem}")
  add_test(
    NAME ${name}
    COMMAND ${BATON_TEST_PYTHON} -m pytest -p no:cacheprovider -q -rs --color=no
            ${CMAKE_CURRENT_SOURCE_DIR}/${A_FILE}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(
    ${name}
    PROPERTIES TIMEOUT ${A_TIMEOUT}
               LABELS "${A_LABELS}"
               SKIP_REGULAR_EXPRESSION "\n[0-9]+ skipped in "
               ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;BATON_BUILD_DIR=${PROJECT_BINARY_DIR}"
               ENVIRONMENT_MODIFICATION "PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/tests")
  if(A_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
