// Makes the certificates of a job: one authority, and for each host a key and a certificate that the authority has
// signed. Owns their content and their paths; leaves their verification to identity.hpp.
//
//   FOLDER/ca.crt, ca.key                  the authority; the key stays with the issuer
//   FOLDER/HOST/ca.crt, host.crt, host.key all files that a host needs, and no others
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/error.hpp"

namespace troupe::net {

inline constexpr uint32_t authority_days = 3650, certificate_days = 365, certificate_days_max = 3650;

struct issue_options {
  uint32_t days = certificate_days;
  int64_t begins_unix_s = 0;  ///< begin of the validity; 0: an hour ago, because clocks may differ
  bool replaces = false;      ///< true if existing files are replaced
};

/// Returns the folder of a host's files. Also checks the name: letters, digits and `.-:_`, not beginning with `-` or
/// `.`. Errors: bad_input.
core::result<std::filesystem::path> host_folder(const std::filesystem::path& folder, const std::string& host);

/// Creates a job's authority: its key and certificate. Errors: bad_input, for an invalid name or number of days, and
/// for files that exist already; io, no_space.
core::result<void> make_authority(const std::filesystem::path& folder, const std::string& name,
                                  const issue_options& options = {.days = authority_days});
/// Issues a certificate with a new key for `host`, a name or an IP address. Errors: bad_input, for an invalid name or
/// number of days, existing files of the host, or missing files of the authority; mismatch, io, no_space.
core::result<void> issue_certificate(const std::filesystem::path& folder, const std::string& host,
                                     const issue_options& options = {});
/// Issues a new certificate for the existing key of `host`. Errors: bad_input, for an invalid name or number of days,
/// or missing files; mismatch, io, no_space.
core::result<void> renew_certificate(const std::filesystem::path& folder, const std::string& host,
                                     const issue_options& options = {});

}  // namespace troupe::net
