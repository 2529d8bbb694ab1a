// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The options of the command line. The supervisor passes them to its workers.
struct ServiceOptions: Sendable {
  var isWorker = false
  var port = 8080
  var workers = 4
  var store = "~/.cache/larder-examples/web-service"

  init(_ arguments: some Sequence<String>) throws {
    var rest = arguments.makeIterator()
    while let name = rest.next() {
      if name == "worker" {
        isWorker = true
        continue
      }
      guard let value = rest.next() else { throw UsageError("\(name) needs a value.") }
      switch (name, Int(value)) {
      case ("--store", _): store = value
      case ("--port", let number?) where 1...65535 ~= number: port = number
      case ("--workers", let number?) where 1...64 ~= number: workers = number
      default: throw UsageError("There is no option \(name) with the value \(value).")
      }
    }
  }

  /// The command line of a worker.
  var workerArguments: [String] { ["worker", "--port", "\(port)", "--store", store] }
}

struct UsageError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Writes a line to standard output at once, also into a pipe.
func say(_ line: String) {
  FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}
