// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A web service of four worker processes that share sessions, cached responses and rates.
//
//   swift run --package-path scripts/examples --scratch-path .build-examples example-web-service
//
// Then, in another terminal, to any of the workers, which share the port:
//
//   curl localhost:8080/reports/sales                 # computed once per machine
//   curl -c jar -d Ada localhost:8080/session         # a session, which every worker reads
//   curl -b jar localhost:8080/session
//   curl -i -X PUT localhost:8080/names/ada           # created once; 429 after five of a client
//   curl localhost:8080/metrics
//
// Ctrl-C stops it: each worker finishes its requests and then closes the store.
// Options: --port NUMBER, --store DIRECTORY, --workers NUMBER.

import Foundation
import Hummingbird
import Logging
import ServiceLifecycle

do {
  let options = try ServiceOptions(CommandLine.arguments.dropFirst())
  var logger = Logger(label: options.isWorker ? "worker" : "service")
  logger.logLevel = .notice
  let services: [any Service] =
    options.isWorker ? try worker(options, logger: logger) : [Supervisor(options: options)]
  // Services stop in the reverse order: the server first, and the store last.
  let group = ServiceGroup(
    services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
  try await group.run()
} catch {
  FileHandle.standardError.write(Data("example-web-service: \(error)\n".utf8))
  exit(1)
}
