# For hands that type make. The work is in ./dev; pass arguments as ARGS="tests/store -k lease".
verbs := help setup check test bench chaos soak fuzz model docs demo lock

.PHONY: $(verbs)
$(verbs):
	@./dev $@ $(ARGS)
