// Node's http module, one process: run_node.js PORT APPLICATION
const http = require('http');
const answer = (response) => {
  response.writeHead(200, {'Content-Type': 'text/plain', 'Content-Length': 13});
  response.end('Hello, World!');
};
const handler = process.argv[3] === 'sleep' ? (_, response) => setTimeout(answer, 10, response) : (_, response) => answer(response);
http.createServer(handler).listen(+process.argv[2], '127.0.0.1', 1024);
