# The test programs that CI builds and runs under the sanitizers: this is the only list of them. They
# get the ctest label `sanitize` and are what the target `sanitized` builds. Pick what parses foreign
# bytes or manages memory for the address sanitizer, and what has threads for the thread sanitizer;
# a source with Boost.Beast costs 17 s (address) or 12 s (thread) to compile.
set(sanitized_by_address
    base_test
    engine_core_test
    handoff_driver_test
    handoff_test
    jinja_test
    kvcache_core_test
    kvcache_test
    modelfile_test
    net_io_test
    net_test
    protocol_test
    router_io_test
    tokenizer_test
    transport_contract_test
    transport_hostile_test
    worker_test)
set(sanitized_by_thread base_test handoff_driver_test net_io_test router_io_test
                        transport_contract_test worker_test)

if(BATON_SANITIZER STREQUAL "thread")
  set(BATON_SANITIZED_TESTS ${sanitized_by_thread})
else()
  set(BATON_SANITIZED_TESTS ${sanitized_by_address})
endif()
add_custom_target(sanitized)
