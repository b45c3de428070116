// Switches the process to the number format of a German locale: commas as decimal points and dots between thousands,
// for C's functions and for C++'s streams. The locale need not be installed: `localedef` builds one with LC_NUMERIC
// alone.
#pragma once

#include <clocale>
#include <cstdlib>
#include <locale>
#include <stdexcept>
#include <string>

#include "tests/scratch_folder.hpp"

namespace troupe::tests {

/// Sets the locale of the whole process for the lifetime of the object.
class comma_locale {
 public:
  comma_locale() : streams_(std::locale(std::locale::classic(), new commas)) {
    folder_.write("source", "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n");
    // The program localedef warns about missing categories and writes the other ones.
    const std::string make = "localedef -c -i '" + (folder_ / "source").string() + "' '" +
                             (folder_ / "comma").string() + "' >/dev/null 2>&1";
    (void)!std::system(make.c_str());
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    if (std::setlocale(LC_NUMERIC, "comma") == nullptr) throw std::runtime_error("no locale could be made");
    before_ = std::locale::global(streams_);
  }
  ~comma_locale() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }
  comma_locale(const comma_locale&) = delete;
  comma_locale& operator=(const comma_locale&) = delete;

 private:
  struct commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  scratch_folder folder_;
  std::locale streams_, before_;
};

}  // namespace troupe::tests
