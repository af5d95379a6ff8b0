/* Why does each GPU of a topology file use the NIC that it uses? explain FILE prints it in words, explain
 * --json FILE the whole machine as JSON. */
#include <railwise/topology_c.h>
#include <stdio.h>
#include <string.h>

static int fail(char* error) {
  fprintf(stderr, "%s\n", error != NULL ? error : "out of memory");
  railwise_topology_string_free(error);
  return 1;
}

int main(int count, char** arguments) {
  railwise_topology_options_t options = RAILWISE_TOPOLOGY_OPTIONS_INIT;
  const int as_json = count == 3 && strcmp(arguments[1], "--json") == 0;
  railwise_topology_t* machine;
  char* error;
  char* text;

  if (count != 2 && !as_json) {
    fprintf(stderr, "usage: explain [--json] FILE\n");
    return 2;
  }
  machine = railwise_topology_load_file(arguments[count - 1], &options, &error);
  if (machine == NULL) return fail(error);
  if (!as_json)
    printf("%d GPUs, %d NICs (railwise %s)\n", railwise_topology_gpu_count(machine),
           railwise_topology_net_count(machine), railwise_topology_version());
  text = as_json ? railwise_topology_json(machine, &error) : railwise_topology_explain(machine, -1, &error);
  railwise_topology_free(machine);
  if (text == NULL) return fail(error);
  fputs(text, stdout);
  railwise_topology_string_free(text);
  return 0;
}
