#include <string>
#include <vector>

#include "lathe/cli/command.h"

int main(int argc, char** argv) {
  using namespace lathe::cli;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  Commands c;
  add_data(c);
  add_train(c);
  add_plan(c);
  add_sample(c);
  add_eval(c);
  add_report(c);
  add_number(c);
  add_precision(c);
  add_doctor(c);
  add_version(c);
  return c.run(arguments);
}
