// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Notes: objects whose every operation gets a fault in the sweep, in a program that declares three
// forms of the type.
//
//   notes PATH           opens a durable store of objects -> opened
//   note save FROM TO TEXT, note delete FROM TO, note clear, note sweep
//                        (clear: everything at once; sweep: the rest) -> ok
//   note index           the form with more indexes: builds them -> ok
//   note migrate         to version 2 -> ok
//   note state           -> state VERSION COUNT HASH, or an error: an index and the objects
//                        disagree
//   note verify          -> sound, or the findings of verify()
//   note close           -> ok; `notes` opens again
//   note churn SEED      -> churning, and then saves, merges and deletes until it is killed

import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting

struct Note: Storable, Equatable {
  let id: Int
  var text: String
  var tags: [Int]
  static let storedName = "Note"
  static let indexes = [Index<Note>("text", \.text)]

  init(_ id: Int, _ text: String) {
    self.id = id
    self.text = text
    tags = (0..<id % 4).map { $0 * 10 + text.utf8.count % 10 }
  }
}

/// The same version, and indexes that were declared later.
struct IndexedNote: Storable, Equatable {
  let id: Int
  var text: String
  var tags: [Int]
  static let storedName = "Note"
  static let indexes = [
    Index<IndexedNote>("text", \.text), Index<IndexedNote>("tag", each: \.tags),
    Index<IndexedNote>("number", \.id, unique: true),
  ]
}

struct LaterNote: Storable, Equatable {
  let id: Int
  var text: String
  var tags: [Int]
  var length: Int
  static let storedName = "Note"
  static let schemaVersion = 2
  static let indexes = [
    Index<LaterNote>("text", \.text), Index<LaterNote>("tag", each: \.tags),
    Index<LaterNote>("length", \.length),
  ]
}

extension Peer {
  func notes(_ command: String, _ words: [Substring]) throws -> String {
    switch command {
    case "notes":
      openedObjects = try ObjectStore(at: String(words[0]))
      return "opened"
    case "note": break
    default: return try refuse("no command \(command)")
    }
    switch words[0] {
    case "save":
      let text = String(words[3])
      try objects.save((number(words[1])..<number(words[2])).map { Note($0, text) })
    case "delete": try objects.delete(Note.self, ids: Array(number(words[1])..<number(words[2])))
    case "clear": try objects.deleteAll(Note.self)
    case "sweep": try objects.storage.core.sweepDroppedObjects()
    case "index": try objects.prepare(IndexedNote.self)
    case "migrate": _ = try objects.migrate([Self.longer])
    case "churn":
      ParentProcess.send("churning")
      try churn(SeededRandom(seed: UInt64(try number(words[1]))))
    case "state": return try state()
    case "verify":
      let findings = try objects.storage.verify()
      return findings.isEmpty ? "sound" : "\(findings)"
    case "close":
      try objects.close()
      openedObjects = nil
    default: return try refuse("no command \(words)")
    }
    return "ok"
  }

  private static let longer = ObjectMigration.objects("longer") { (old: IndexedNote) in
    LaterNote(
      id: old.id, text: old.text + "!", tags: old.tags, length: old.text.utf8.count + 1)
  }

  private func state() throws -> String {
    do {
      return try NoteState.text(of: Note.self, objects) { ($0.id, $0.text, $0.tags) }
    } catch let error as ObjectError where error.code == .newerSchema {
      return try NoteState.text(of: LaterNote.self, objects) { ($0.id, $0.text, $0.tags) }
    }
  }

  private func churn(_ seeded: SeededRandom) throws {
    var random = seeded
    while true {
      let id = Int.random(in: 0..<200, using: &random)
      let text = "t\(Int.random(in: 0..<50, using: &random))"
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<9: try objects.save(Note(id, text))
      case 9..<13: try objects.save((id..<id + 20).map { Note($0, text) })
      case 13..<17: try objects.delete(Note.self, ids: Array(id..<id + 10))
      case 17..<19: try objects.merge([Note(id, text)], into: \Note.text == text)
      default:
        if Int.random(in: 0..<10, using: &random) == 0 { try objects.deleteAll(Note.self) }
      }
    }
  }
}

/// The stored state in a word; every index is queried as well.
enum NoteState {
  static func text<Object: Storable>(
    of type: Object.Type, _ store: ObjectStore,
    _ parts: @escaping @Sendable (Object) -> (id: Int, text: String, tags: [Int])
  ) throws -> String where Object: Noted {
    let (all, defects) = try store.write { transaction in
      let all = try transaction.fetch(store.objects(type))
      var defects: [String] = []
      for text in Set(all.map { parts($0).text }) {
        let found = try transaction.fetch(store.objects(type).where(Object.hasText(text)))
        if found.map({ parts($0).id })
          != all.filter({ parts($0).text == text }).map({ parts($0).id })
        {
          defects.append("text \(text)")
        }
      }
      for tag in Set(all.flatMap { parts($0).tags }) {
        let found = try transaction.fetch(store.objects(type).where(Object.hasTag(tag)))
        if Set(found.map { parts($0).id })
          != Set(all.filter { parts($0).tags.contains(tag) }.map { parts($0).id })
        {
          defects.append("tag \(tag)")
        }
      }
      return (all, defects)
    }
    if !defects.isEmpty { return "indexes disagree: \(defects)" }
    var hash: UInt64 = 14_695_981_039_346_656_037
    for object in all {
      for byte in "\(parts(object))".utf8 { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 }
    }
    return "state \(Object.schemaVersion) \(all.count) \(hash)"
  }
}

/// A form of the note.
protocol Noted: Storable {
  static func hasText(_ text: String) -> ObjectPredicate<Self>
  static func hasTag(_ tag: Int) -> ObjectPredicate<Self>
}

extension Note: Noted {
  static func hasText(_ text: String) -> ObjectPredicate<Note> { \Note.text == text }
  static func hasTag(_ tag: Int) -> ObjectPredicate<Note> {
    PredicateProperty(\Note.tags).contains(tag)
  }
}

extension LaterNote: Noted {
  static func hasText(_ text: String) -> ObjectPredicate<LaterNote> { \LaterNote.text == text }
  static func hasTag(_ tag: Int) -> ObjectPredicate<LaterNote> {
    PredicateProperty(\LaterNote.tags).contains(tag)
  }
}
