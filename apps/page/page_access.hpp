// Checks the part of a configuration that a run's page needs: the token, the certificate, a free port. Independent of
// runs, so that the program that starts processes refuses the same configurations as the leading process.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/page/secure_channel.hpp"
#include "config/sections/cluster_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Reads the page's access token from `file`. Errors: bad_input for a file that other users can read, or that does not
/// contain a valid token.
core::result<std::string> read_page_token(const std::filesystem::path& file);
/// Returns TLS channels if the page listens beyond loopback or has a key of its own, else plain channels. Errors:
/// bad_input.
core::result<std::unique_ptr<channel_maker>> page_channels(const config::cluster_section& c,
                                                           const config::page_place& at);
/// Checks the token, the certificate and that the port is free, and closes everything again. Succeeds without a page.
core::result<void> check_page(const config::cluster_section& c);

}  // namespace troupe::apps
