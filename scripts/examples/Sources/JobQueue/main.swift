// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A job queue of one producer and four workers, each a process. One worker is killed in the middle of
// a job; another one does it.
//
//   swift run --package-path scripts/examples --scratch-path .build-examples example-job-queue
//
// It prints the fate of the jobs, and exits with 1 if one was lost or completed twice. The arguments
// are the number of jobs (200; a multiple of 10) and a directory for the store (a temporary one).
//
// The queue is the same for `larder queue status jobs --store DIRECTORY`.

import Foundation
import Larder

do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  switch (arguments.first, arguments.count) {
  case ("produce", 3):
    try await produce(into: JobStore(at: arguments[1]), count: Int(arguments[2]) ?? 0)
  case ("work", 2): try await workUntilTerminated(JobStore(at: arguments[1]))
  default: exit(try await rehearse(arguments))
  }
} catch {
  FileHandle.standardError.write(Data("example-job-queue: \(error)\n".utf8))
  exit(1)
}

func rehearse(_ arguments: [String]) async throws -> Int32 {
  let count = arguments.first.map { Int($0) ?? 0 } ?? 200
  guard count >= 30, count % 10 == 0, arguments.count < 3 else {
    print("usage: example-job-queue [JOBS [DIRECTORY]]; JOBS is at least 30, a multiple of 10")
    return 64
  }
  let isTemporary = arguments.count < 2
  let path = isTemporary ? NSTemporaryDirectory() + "larder-jobs-\(getpid())" : arguments[1]
  let isCorrect = try await Rehearsal(path: path, count: count).run()
  if isTemporary { try FileManager.default.removeItem(atPath: path) }
  return isCorrect ? 0 : 1
}
