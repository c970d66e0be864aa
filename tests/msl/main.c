/* msl_check FILE.metal...: runs the launches that the comments of the files say (facts.c). */
#include <stdio.h>
#include <string.h>

#include "tests/msl/main.h"
#include "tests/msl/msl.h"

bool msl_verbose;

int
main(int argc, char **argv)
{
	char clang[512];
	int passed = 0, failed = 0;
	if (!msl_compiler(clang, sizeof clang)) {
		puts("msl: skipped, there is no clang here");
		return 77;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-v") == 0)
			msl_verbose = true;
		else if (msl_facts(argv[i]))
			failed++;
		else
			passed++;
	}
	printf("msl: %d passed, %d failed\n", passed, failed);
	return failed != 0 || passed == 0;
}
