// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderSchema

// A program of the fuzzer of declarations: performs requests on a store until its input ends.

func serve() throws {
  let store = try ObjectStore(
    at: CommandLine.arguments[1], StoreOptions(durability: .relaxed))
  while let line = readLine() {
    let request = try JSONDecoder().decode(Request.self, from: Data(line.utf8))
    var answer = Answer()
    do {
      try handlers[request.type].perform(request, store, &answer)
    } catch {
      answer.failure = Answer.Failure(error)
    }
    let data = try JSONEncoder().encode(answer) + Data("\n".utf8)
    try FileHandle.standardOutput.write(contentsOf: data)
  }
  store.close()
}

try serve()
