// Makes the certificates of a job: one authority, and for each host a key and a certificate that it has signed. Owns
// what stands in them and where they lie; who checks them is identity.hpp.
//
//   FOLDER/ca.crt, ca.key                  the authority; the key stays with whoever issues
//   FOLDER/HOST/ca.crt, host.crt, host.key what a host needs, and nothing else
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/error.hpp"

namespace troupe::net {

inline constexpr uint32_t authority_days = 3650, certificate_days = 365, certificate_days_max = 3650;

struct issue_options {
  uint32_t days = certificate_days;
  int64_t begins_unix_s = 0;  ///< 0: an hour ago, for clocks that differ
  bool replaces = false;      ///< what is there
};

/// What files of a host are called; also a check that a name is one: letters, digits and `.-:_`, not beginning with
/// `-` or `.`. Errors: bad_input.
core::result<std::filesystem::path> host_folder(const std::filesystem::path& folder, const std::string& host);

/// Errors of all: bad_input, for names, days and files that are there or are none; io, no_space.
core::result<void> make_authority(const std::filesystem::path& folder, const std::string& name,
                                  const issue_options& options = {.days = authority_days});
/// With a new key; `host` is a name or an IP address.
core::result<void> issue_certificate(const std::filesystem::path& folder, const std::string& host,
                                     const issue_options& options = {});
/// For the key that the host has.
core::result<void> renew_certificate(const std::filesystem::path& folder, const std::string& host,
                                     const issue_options& options = {});

}  // namespace troupe::net
