// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite struct SchemaTests {
  @Test(.timeLimit(.minutes(15)))
  func `A field more in the same version reads, and is not written`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    #expect(try ground.store.objects(PersonWithMail.self).count() == 3)
    #expect(try ground.store.object(PersonWithMail.self, id: 1)?.mail == nil)
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PersonWithMail(id: 1, name: "n1", age: "1", mail: "m"))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("declared mail: text?") == true, "\(error!)")
    #expect(try ground.store.objects(PersonV1.self).fetch() == Years.people(0..<3))
    // Nothing stored, nothing to lose.
    try ground.store.deleteAll(PersonV1.self)
    try ground.store.save(PersonWithMail(id: 1, name: "n1", age: "1", mail: "m"))
    #expect(throws: ObjectError.self) { try ground.store.save(Years.people(0..<1)) }
  }

  @Test(.timeLimit(.minutes(15)))
  func `Another kind of field in the same version is never decoded wrongly`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    for attempt in [
      { _ = try ground.store.objects(PersonWithNumber.self).fetch() },
      { _ = try ground.store.object(PersonWithNumber.self, id: 1) },
      { try ground.store.save(PersonWithNumber(id: 1, name: "n1", age: 1)) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .schemaMismatch)
      #expect(error?.message.contains("stored age: text, declared age: integer") == true)
    }
  }

  @Test(.timeLimit(.minutes(15)))
  func `A newer version that does not decode what is stored asks for a migration`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    for attempt in [
      { _ = try ground.store.objects(PersonV2.self).fetch() },
      { try ground.store.save(PersonV2(id: 1, name: "n1", age: 1)) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .schemaMismatch && error?.message.contains("migration") == true)
    }
    #expect(try ground.store.objects(PersonV1.self).count() == 3)
  }

  @Test(.timeLimit(.minutes(15)))
  func `A newer version that decodes is raised by a write, and old programs may still read`() throws
  {
    let ground = try Ground(StoreOptions())
    let old = try ObjectStore(at: ground.path, StoreOptions())
    try old.save(Years.people(0..<3))
    #expect(try ground.store.objects(PersonWithNote.self).count() == 3)
    try ground.store.save(PersonWithNote(id: 1, name: "n1", age: "1", note: "kept"))
    #expect(try old.object(PersonV1.self, id: 1)?.name == "n1")
    #expect(try old.objects(PersonV1.self).count() == 3)
    let error = #expect(throws: ObjectError.self) { try old.save(Years.people(1..<2)) }
    #expect(error?.code == .newerSchema)
    #expect(throws: ObjectError.self) { try old.delete(PersonV1.self, id: 1) }
    #expect(try ground.store.object(PersonWithNote.self, id: 1)?.note == "kept")
    // A migration to a version that was raised without it comes too late.
    let late = #expect(throws: ObjectError.self) { try ground.store.migrate([Years.step]) }
    #expect(late?.code == .migrationOrder)
  }

  @Test(.timeLimit(.minutes(15)))
  func `A declaration that needs an object to be read is known from the first one saved`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Painted(id: 1, colour: .green, size: 1.5))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PaintedTwice(id: 1, colour: .green, size: 1.5, coats: 2))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("declared coats: integer?") == true, "\(error!)")
  }
}
