// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

private struct TextPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [Index<TextPerson>("name", \.name)]
}

private struct NumberedPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
}

@Suite struct SchemaErasureProcessTests {
  @Test(.timeLimit(.minutes(60)))
  func `A program that is started with the option erases once, and the running one gets the error`()
    throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.appending("people")
    var options = StoreOptions()
    options.erasesOnSchemaChange = true
    let store = try ObjectStore(at: path, options)
    try store.save((0..<7).map { TextPerson(id: $0, name: "n", age: "1") })
    for (id, erased) in [(1, 7), (2, 0)] {
      // A process each, the first of which finds objects that do not fit.
      let peer = try TestExecutable.peer.start()
      let answer = try peer.ask("numbered \(path) \(id)")
      #expect(answer == "numbered ok \(erased)")
      let error = #expect(throws: ObjectError.self) {
        try store.save(TextPerson(id: 1, name: "n", age: "1"))
      }
      #expect(error?.code == .schemaMismatch)
      #expect(throws: ObjectError.self) { try store.objects(TextPerson.self).fetch() }
      peer.kill()
      _ = try peer.wait()
    }
    let reader = try ObjectStore(at: path, StoreOptions())
    #expect(try reader.objects(NumberedPerson.self).fetch().map(\.id) == [1, 2])
    #expect(try reader.storage.verify() == [])
  }
}
